#include <optional>
#include <string>

#include "dyad/ops/ops.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

std::optional<std::int64_t> optional_integer(const json& attrs, const char* name) {
  if (!attrs.contains(name) || attrs[name].is_null()) return {};
  return attrs[name].get<std::int64_t>();
}
std::optional<bool> optional_flag(const json& attrs, const char* name) {
  if (!attrs.contains(name)) return {};
  return attrs[name].get<bool>();
}
std::string norm_of(const json& attrs) { return attrs.at("norm").get<std::string>(); }

using Along = Tensor (*)(const Tensor&, std::optional<Dim>, std::int64_t, std::string_view, Loc);
template <Along f>
Tensor along(const json& attrs, const Tensor& x) {
  std::optional<Dim> n;
  if (const auto given = optional_integer(attrs, "n")) n = Dim(*given);
  return f(x, n, integer(attrs, "axis"), norm_of(attrs), std::source_location::current());
}
using Over = Tensor (*)(const Tensor&, const Shape&, const Ints&, std::string_view, Loc);
template <Over f>
Tensor over(const json& attrs, const Tensor& x) {
  return f(x, Shape(ints(attrs, "sizes")), ints(attrs, "axes"), norm_of(attrs),
           std::source_location::current());
}

StftArgs stft_args(const json& attrs, const Tensor& window) {
  StftArgs args{.hop_length = optional_integer(attrs, "hop"),
                .win_length = optional_integer(attrs, "win")};
  args.window = window;
  args.center = optional_flag(attrs, "center").value_or(true);
  if (attrs.contains("mode")) args.pad_mode = attrs["mode"].get<std::string>();
  args.normalized = optional_flag(attrs, "normalized").value_or(false);
  args.onesided = optional_flag(attrs, "onesided");
  if (const auto length = optional_integer(attrs, "length")) args.length = Dim(*length);
  return args;
}

const FunctionCases kFftCases{
    {"fft fn",
     [](const json& a, const Tensors& in) -> Tensors { return {parts(along<fft>(a, z(in[0])))}; }},
    {"ifft fn",
     [](const json& a, const Tensors& in) -> Tensors { return {parts(along<ifft>(a, z(in[0])))}; }},
    {"rfft fn",
     [](const json& a, const Tensors& in) -> Tensors { return {parts(along<rfft>(a, in[0]))}; }},
    {"ihfft fn",
     [](const json& a, const Tensors& in) -> Tensors { return {parts(along<ihfft>(a, in[0]))}; }},
    {"irfft fn",
     [](const json& a, const Tensors& in) -> Tensors { return {along<irfft>(a, z(in[0]))}; }},
    {"hfft fn",
     [](const json& a, const Tensors& in) -> Tensors { return {along<hfft>(a, z(in[0]))}; }},
    {"fft real fn", [](const json&, const Tensors& in) -> Tensors { return {parts(fft(in[0]))}; }},
    {"irfft real fn", [](const json&, const Tensors& in) -> Tensors { return {irfft(in[0])}; }},
    {"fftn fn",
     [](const json& a, const Tensors& in) -> Tensors { return {parts(over<fftn>(a, z(in[0])))}; }},
    {"ifftn fn",
     [](const json& a, const Tensors& in) -> Tensors { return {parts(over<ifftn>(a, z(in[0])))}; }},
    {"rfftn fn",
     [](const json& a, const Tensors& in) -> Tensors { return {parts(over<rfftn>(a, in[0]))}; }},
    {"irfftn fn",
     [](const json& a, const Tensors& in) -> Tensors { return {over<irfftn>(a, z(in[0]))}; }},
    {"fft2 fn", [](const json&, const Tensors& in) -> Tensors { return {parts(fft2(z(in[0])))}; }},
    {"ifft2 fn",
     [](const json&, const Tensors& in) -> Tensors { return {parts(ifft2(z(in[0])))}; }},
    {"rfft2 fn", [](const json&, const Tensors& in) -> Tensors { return {parts(rfft2(in[0]))}; }},
    {"irfft2 fn", [](const json&, const Tensors& in) -> Tensors { return {irfft2(z(in[0]))}; }},
    {"fftshift fn",
     [](const json& a, const Tensors& in) -> Tensors {
       return {fftshift(in[0], ints(a, "axes"))};
     }},
    {"ifftshift fn",
     [](const json& a, const Tensors& in) -> Tensors {
       return {ifftshift(in[0], ints(a, "axes"))};
     }},
    {"complex fftshift fn",
     [](const json& a, const Tensors& in) -> Tensors {
       return {parts(fftshift(z(in[0]), ints(a, "axes")))};
     }},
    {"fftfreq fn",
     [](const json& a, const Tensors&) -> Tensors {
       return {fftfreq(Dim(integer(a, "n")), a["d"].get<double>(), dtype_at(a, "dtype"))};
     }},
    {"rfftfreq fn",
     [](const json& a, const Tensors&) -> Tensors {
       return {rfftfreq(Dim(integer(a, "n")), a["d"].get<double>(), dtype_at(a, "dtype"))};
     }},
    {"stft fn",
     [](const json& a, const Tensors& in) -> Tensors {
       return {parts(stft(in[0], integer(a, "n_fft"), stft_args(a, in[1])))};
     }},
    {"complex stft fn",
     [](const json& a, const Tensors& in) -> Tensors {
       StftArgs args = stft_args(a, z(in[1]));
       args.return_complex = false;
       return {stft(z(in[0]), integer(a, "n_fft"), args)};
     }},
    {"istft fn",
     [](const json& a, const Tensors& in) -> Tensors {
       return {istft(z(in[0]), integer(a, "n_fft"), stft_args(a, in[1]))};
     }},
    {"istft complex fn",
     [](const json& a, const Tensors& in) -> Tensors {
       StftArgs args = stft_args(a, Tensor());
       args.return_complex = true;
       return {parts(istft(z(in[0]), integer(a, "n_fft"), args))};
     }},
    {"kaiser fn",
     [](const json& a, const Tensors&) -> Tensors {
       return {kaiser_window(Dim(integer(a, "size")), a["periodic"].get<bool>(),
                             a["beta"].get<double>(), dtype_at(a, "dtype"))};
     }},
    {"mel fn",
     [](const json& a, const Tensors&) -> Tensors {
       return {mel_weight_matrix(integer(a, "bins"), integer(a, "length"), integer(a, "rate"),
                                 a["low"].get<double>(), a["high"].get<double>(),
                                 dtype_at(a, "dtype"))};
     }},
};

}  // namespace
}  // namespace dyad::testing
