// Models damaged in every place: each byte, and each field of each message. Whatever comes out is
// read, or refused by one of Dyad's errors.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/data/files.h"
#include "tests/fuzz/targets.h"
#include "tests/fuzz/wire.h"

namespace dyad::fuzz {
namespace {

class DamagedModel : public ::testing::TestWithParam<const char*> {
 protected:
  void read(const std::string& bytes, const std::string& damage) {
    if (HasFatalFailure()) return;
    ++count_;
    try {
      read_onnx(bytes);
    } catch (const std::exception& error) {
      FAIL() << damage << ": " << error.what();
    }
  }
  /// The model with something changed that is put back afterwards.
  void read_changed(const Message& model, const std::string& damage) { read(model.text(), damage); }

  static std::string whole() {
    return testing::bytes_of_file(std::string("tests/fuzz/corpus/onnx/") + GetParam() + ".onnx");
  }

  int count_ = 0;
};

TEST_P(DamagedModel, AtEveryByte) {
  const std::string bytes = whole();
  ASSERT_FALSE(bytes.empty());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const std::string place = " at byte " + std::to_string(at);
    read(bytes.substr(0, at), "cut" + place);
    for (const int flip : {0x01, 0x08, 0x80, 0xFF}) {
      std::string other = bytes;
      other[at] = static_cast<char>(other[at] ^ flip);
      read(other, "flipped" + place);
    }
    std::string other = bytes;
    read(other.erase(at, 1), "left out" + place);
    read(other.insert(at, "\xff\xff"), "put in" + place);
  }
  EXPECT_GE(count_, 7 * static_cast<int>(bytes.size()));
}

/// Calls `use` with each message in one, and its path.
void for_each_message(Message& message, const std::string& path,
                      const std::function<void(Message&, const std::string&)>& use) {
  use(message, path);
  for (std::size_t i = 0; i < message.fields.size(); ++i) {
    for (Message& inner : message.fields[i].message) {
      for_each_message(inner, path + "." + std::string(inner.type->name) + std::to_string(i), use);
    }
  }
}

constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kNumbers[] = {0,          1,          2,          5,
                                      17,         1ull << 20, 1ull << 31, (1ull << 31) - 1,
                                      1ull << 32, 1ull << 59, 1ull << 62, kMost,
                                      kMost + 1,  ~0ull,      ~1ull,      ~0ull - (1ull << 31)};

TEST_P(DamagedModel, InEveryField) {
  auto model = Message::parse(kModel, whole());
  ASSERT_TRUE(model);
  ASSERT_EQ(model->text(), whole());
  for_each_message(*model, "model", [&](Message& message, const std::string& path) {
    const std::vector<Message::Field> before = message.fields;
    const auto read_and_restore = [&](const std::string& damage) {
      read_changed(*model, damage);
      message.fields = before;
    };
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::string place =
          path + " field " + std::to_string(before[i].number) + " (" + std::to_string(i) + ")";
      const auto at = message.fields.begin() + static_cast<std::ptrdiff_t>(i);
      message.fields.erase(at);
      read_and_restore("left out: " + place);
      message.fields.insert(message.fields.begin() + static_cast<std::ptrdiff_t>(i), before[i]);
      read_and_restore("doubled: " + place);
      message.fields.push_back(before[i]);
      std::rotate(message.fields.begin(), message.fields.end() - 1, message.fields.end());
      read_and_restore("doubled in front: " + place);
      for (const int wire : {0, 1, 2, 3, 4, 5, 6, 7}) {
        message.fields[i].wire = wire;
        message.fields[i].message.clear();
        read_and_restore("of another wire type: " + place);
      }
      for (const int other : {1, 2, 3, 5, 8, 20}) {
        message.fields[i].number = other;
        read_and_restore("as another field: " + place);
      }
      if (before[i].wire == 0) {
        for (const std::uint64_t number : kNumbers) {
          message.fields[i].value = number;
          read_and_restore("the number " + std::to_string(number) + ": " + place);
        }
      } else if (before[i].wire == 2) {
        for (const char* const text : {"", "x", "y", "\xff\xfe", "If", "If\n", "ai.onnx.ml"}) {
          message.fields[i].message.clear();
          message.fields[i].bytes = text;
          read_and_restore("other bytes: " + place);
        }
      }
    }
  });
  EXPECT_GT(count_, 100);
}

INSTANTIATE_TEST_SUITE_P(Fuzz, DamagedModel,
                         ::testing::Values("functions", "initializers", "if_by_data_in_a_graph",
                                           "loop_stacks_until_data_says", "scan_along_other_axes",
                                           "sequence_in_a_loop", "strings_normalized_up",
                                           "loop_grows_its_state"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace dyad::fuzz
