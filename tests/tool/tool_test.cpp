#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "dyad/autograd/grad_mode.h"
#include "dyad/core/create.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/io/npy.h"
#include "dyad/io/program.h"
#include "dyad/nn/nn.h"
#include "dyad/onnx/export.h"
#include "dyad/onnx/load.h"
#include "dyad/ops/ops.h"
#include "tests/ir/xml_problem.h"

// The program `dyad`, as a shell runs it.

namespace dyad::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

/// A folder of this process, so that tests that run beside one another do not share files; it is
/// gone when the process ends.
const std::string& folder() {
  struct Folder {
    std::string path = ::testing::TempDir() + "tool" + std::to_string(::getpid()) + "/";
    Folder() { fs::create_directories(path); }
    ~Folder() { fs::remove_all(path); }
  };
  static const Folder folder;
  return folder.path;
}

struct Output {
  int status = -1;
  std::string out, err;
};

/// Runs `dyad ARGUMENTS` in a folder for tests.
Output run(const std::string& arguments) {
  const std::string program = fs::read_symlink("/proc/self/exe").parent_path() / "dyad";
  const std::string err = folder() + "tool_stderr.txt";
  const std::string command =
      "cd '" + folder() + "' && '" + program + "' " + arguments + " 2> '" + err + "'";
  Output output;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) {
    output.out.append(buffer, got);
  }
  const int status = pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  output.err = contents(err);
  return output;
}

struct Mlp {
  nn::Linear up{3, 4}, down{4, 2};
  Tensor operator()(const Tensor& x) const { return down(tanh(up(x))); }
};

/// A model in the folder of tests, whose weights are all 0.5.
void write_model(const std::string& name, const onnx::SaveOptions& options = {}) {
  Mlp model;
  const NoGrad scope;
  for (Tensor& weight : nn::parameters(model)) weight.fill_(0.5);
  onnx::SaveOptions with_names = options;
  with_names.outputs = {"y"};
  onnx::save(folder() + name, model, {{"x", f32, {"batch", 3}}}, with_names);
}

/// The same, asking for an operator that nobody has.
void write_unsupported(const std::string& name) {
  write_model(name);
  std::string bytes = contents(folder() + name);
  for (std::size_t at = 0; (at = bytes.find("Tanh", at)) != std::string::npos;) {
    bytes.replace(at, 4, "Tanx");
  }
  std::ofstream(folder() + name, std::ios::binary) << bytes;
}

TEST(Tool, HelpTeaches) {
  const Output all = run("--help");
  EXPECT_EQ(all.status, 0);
  for (const char* command : {"demo", "inspect", "run", "bench", "onnx-test", "passes", "opt"}) {
    EXPECT_THAT(all.out, HasSubstr(command));
    const Output one = run(std::string(command) + " --help");
    EXPECT_EQ(one.status, 0) << command;
    EXPECT_THAT(one.out,
                AllOf(HasSubstr("Examples:"), HasSubstr("dyad " + std::string(command)),
                      HasSubstr("Exit status: 0 on success, 1 when something failed, 2 for")))
        << command;
  }
}

TEST(Tool, WrongArgumentsAreStatusTwo) {
  EXPECT_EQ(run("").status, 2);
  EXPECT_EQ(run("nothing").status, 2);
  EXPECT_EQ(run("inspect").status, 2);
  EXPECT_EQ(run("bench model.onnx --runs 0").status, 2);
  EXPECT_EQ(run("frob").err,
            "The following argument was not expected: frob\nRun with --help for more "
            "information.\n");
  EXPECT_THAT(run("inspect --colour").err, HasSubstr("was not expected: --colour"));
  EXPECT_THAT(run("run model.onnx --threads 0").err, HasSubstr("'0' is no number above 0"));
  EXPECT_EQ(run("run model.onnx --random -1").status, 2);
  EXPECT_THAT(run("onnx-test model --rtol -1").err, HasSubstr("'-1' is no number from 0 on"));
  EXPECT_EQ(run("inspect model.onnx --text --json").status, 2);
  const Output dim = run("run model.onnx --dim batch");
  EXPECT_EQ(dim.status, 2);
  EXPECT_THAT(dim.err, HasSubstr("'batch' is not NAME=N, such as batch=8"));
  EXPECT_THAT(run("run model.onnx --dim batch=-1").err, HasSubstr("a number from 0 on"));
  EXPECT_THAT(run("run model.onnx --input x").err,
              HasSubstr("'x' is not NAME=FILE, such as x=image.npy"));
}

TEST(Tool, FilesThatAreNoModels) {
  std::ofstream(folder() + "text.onnx") << "not a model";
  for (const char* command : {"inspect", "run", "bench"}) {
    const Output missing = run(std::string(command) + " nowhere.onnx");
    EXPECT_EQ(missing.status, 1);
    EXPECT_THAT(missing.err, AllOf(StartsWith("dyad: "), HasSubstr("nowhere.onnx")));
    const Output text = run(std::string(command) + " text.onnx");
    EXPECT_EQ(text.status, 1);
    EXPECT_THAT(text.err, StartsWith("dyad: 'text.onnx' is no ONNX model, or is cut or damaged"));
    EXPECT_EQ(text.out, "");
  }
}

TEST(Inspect, ShowsAModel) {
  write_model("small.onnx", {.external_data = true, .external_threshold = 40});
  const Output shown = run("inspect small.onnx --dim batch=8 --parameters");
  EXPECT_EQ(shown.status, 0);
  EXPECT_EQ(shown.err, "");
  const auto size = fs::file_size(folder() + "small.onnx");
  EXPECT_THAT(shown.out,
              StartsWith("small.onnx: " + std::to_string(size) +
                         R"( bytes, written by dyad; IR version 10, operators of ai.onnx 21

Inputs
  x  f32[batch, 3]

Outputs
  y  f32[batch, 2]

Operators: 3 nodes
  Gemm  21  2
  Tanh  21  1

Parameters: 4 tensors, 26 elements, 104 bytes
  48 bytes in small.onnx.data
  up.weight    f32[4, 3]  48 bytes
  up.bias      f32[4]     16 bytes
  down.weight  f32[2, 4]  32 bytes
  down.bias    f32[2]      8 bytes

Memory of a run at batch = 8 (change it by --dim)
  intermediate values )"));
  EXPECT_THAT(shown.out, EndsWith(R"(
  results               64 bytes

Dyad can run this model.
)"));
}

TEST(Inspect, ListsWhatItCannotRun) {
  write_unsupported("other.onnx");
  const Output shown = run("inspect other.onnx");
  EXPECT_EQ(shown.status, 1);
  EXPECT_THAT(shown.out, HasSubstr("x  f32[batch, 3]"));
  EXPECT_THAT(shown.out, HasSubstr("  Tanx  21  1  cannot be run\n"));
  EXPECT_THAT(shown.out, HasSubstr("Dyad cannot run this model. 1 node stands in the way:\n"
                                   "  Tanx 21, "));
  EXPECT_THAT(shown.out, EndsWith(": Dyad has no such operator\n"));
  const json report = json::parse(run("inspect other.onnx --json").out);
  EXPECT_EQ(report["runs"], false);
  EXPECT_EQ(report["unsupported"][0]["operator"], "Tanx");
  EXPECT_EQ(report["unsupported"][0]["version"], 21);
  EXPECT_EQ(report["unsupported"][0]["reason"], "Dyad has no such operator");
  EXPECT_TRUE(report["memory"].is_null());
}

TEST(Inspect, AsJson) {
  write_model("json.onnx");
  const Output shown = run("inspect json.onnx --dim batch=8 --json");
  EXPECT_EQ(shown.status, 0);
  const json report = json::parse(shown.out);
  EXPECT_EQ(report["runs"], true);
  EXPECT_EQ(report["producer"], "dyad");
  EXPECT_EQ(report["inputs"], json::parse(R"([{"name": "x", "type": "f32[batch, 3]"}])"));
  EXPECT_EQ(report["parameter_bytes"], 104);
  EXPECT_EQ(report["memory"]["sizes"]["batch"], 8);
  EXPECT_EQ(report["memory"]["result_bytes"], 64);
  EXPECT_EQ(report["operators"].size(), 2u);
}

TEST(Inspect, WrongSizesAreErrors) {
  write_model("sizes.onnx");
  const Output wrong = run("inspect sizes.onnx --dim length=3");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_EQ(wrong.err,
            "dyad: 'sizes.onnx': no input has a size with the name length; there are batch\n");
}

TEST(Inspect, PrintsAndDrawsTheGraph) {
  write_model("graph.onnx");
  const Output text = run("inspect graph.onnx --text");
  EXPECT_EQ(text.status, 0);
  EXPECT_EQ(Graph::parse(text.out).to_string(), text.out);
  EXPECT_THAT(text.out, HasSubstr("%up.weight = variable : f32[4, 3]\n"));
  EXPECT_THAT(text.out, HasSubstr("@graph.onnx:"));
  EXPECT_EQ(run("inspect graph.onnx --svg graph.svg").status, 0);
  const std::string svg = contents(folder() + "graph.svg");
  EXPECT_EQ(xml_problem(svg), "");
  EXPECT_THAT(svg, AllOf(HasSubstr(">graph.onnx</text>"), HasSubstr(">matmul</text>"),
                         HasSubstr(">up.weight f32[4, 3]</text>"), HasSubstr(">output 0</text>"),
                         HasSubstr(">Tanh")));
  EXPECT_EQ(run("inspect graph.onnx --svg nowhere/graph.svg").status, 1);
  EXPECT_EQ(json::parse(run("inspect graph.onnx --svg graph.svg --json").out)["runs"], true);
}

TEST(Run, GivesWhatTheModelGives) {
  write_model("run.onnx");
  io::save_npy(folder() + "x.npy", tensor({{0.5f, -1.0f, 2.0f}, {0.0f, 0.0f, 0.0f}}));
  const Output shown = run("run run.onnx --input x=x.npy --output results --threads 1");
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, StartsWith("result  type"));
  EXPECT_THAT(shown.out, HasSubstr("\ny       f32[2, 2]  "));
  EXPECT_THAT(shown.out, EndsWith("\n\nwrote results/y.npy\n"));
  const auto y = io::load_npy(folder() + "results/y.npy").to_vector<double>();
  for (const int row : {0, 1}) {
    const double hidden = std::tanh(0.5 * (row == 0 ? 1.5 : 0.0) + 0.5);
    EXPECT_NEAR(y.at(static_cast<std::size_t>(2 * row)), 2 * hidden + 0.5, 1e-6);
  }
}

TEST(Run, DrawsInputsTheSameWayForASeed) {
  write_model("random.onnx");
  const Output first = run("run random.onnx --random 1 --dim batch=3");
  EXPECT_EQ(first.status, 0);
  EXPECT_THAT(first.out, HasSubstr("f32[3, 2]"));
  EXPECT_EQ(run("run random.onnx --dim batch=3 --random 1").out, first.out);
  EXPECT_EQ(run("run --dim batch=3 --random 1 random.onnx").out, first.out);
  EXPECT_NE(run("run random.onnx --random 2 --dim batch=3").out, first.out);
}

/// x times a stored row, as a program.
std::string saved_program() {
  const std::string path = folder() + "rows.dyad";
  Graph g;
  g.define([] { return placeholder("x", f32, {"n", 2}) * variable("w", tensor({2.0f, 3.0f})); });
  io::save(path, g, {.outputs = {"y"}, .notes = {{"epoch", "7"}}});
  return "rows.dyad";
}

TEST(Inspect, ShowsAProgram) {
  const Output output = run("inspect " + saved_program());
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_THAT(output.out, AllOf(HasSubstr("f32[n, 2]"), HasSubstr("y"), HasSubstr("f32[2]"),
                                HasSubstr("epoch")));
  EXPECT_THAT(run("inspect --text " + saved_program()).out, HasSubstr("mul(%x, %w)"));
  const json report = json::parse(run("inspect --json " + saved_program()).out);
  EXPECT_EQ(report, json::parse(R"({"inputs": [{"name": "x", "type": "f32[n, 2]"}],
                                    "outputs": [{"name": "y", "type": "f32[n, 2]"}],
                                    "tensors": [{"name": "w", "type": "f32[2]"}],
                                    "notes": {"epoch": "7"}})"));
  const Output drawn = run("inspect --svg program.svg " + saved_program());
  EXPECT_EQ(drawn.status, 1);
  EXPECT_THAT(drawn.err, StartsWith("dyad: --svg draws ONNX models; 'rows.dyad' is a program"));
}

TEST(Run, RunsAProgram) {
  const std::string program = saved_program();
  io::save_npy(folder() + "ones.npy", ones({3, 2}));
  const Output output = run("run " + program + " --input x=ones.npy --output .");
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_THAT(io::load_npy(folder() + "y.npy").to_vector<float>(),
              ::testing::ElementsAre(2, 3, 2, 3, 2, 3));
  EXPECT_THAT(run("run " + program + " --random 1 --dim n=5").out, HasSubstr("f32[5, 2]"));
  const Output wrong = run("run " + program + " --random 1 --dim m=5");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.err, HasSubstr("no input has a size with the name m"));
  EXPECT_THAT(run("run " + program).err, HasSubstr("\"x\" is not fed"));
}

TEST(Run, WritesWhereItIsTold) {
  write_model("where.onnx");
  EXPECT_EQ(run("run where.onnx --random 0 --output deep/er/results").status, 0);
  EXPECT_TRUE(fs::exists(folder() + "deep/er/results/y.npy"));
  std::ofstream(folder() + "file") << "text";
  const Output wrong = run("run where.onnx --random 0 --output file");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_EQ(wrong.out, "");
  EXPECT_EQ(wrong.err, "dyad: 'file' cannot be made: Not a directory\n");
}

/// A convolution whose weights take in the normalisation behind it, unless bits are asked for.
struct Normalised {
  nn::Conv2d conv{3, 8, 3};
  nn::BatchNorm2d norm{8};
  Tensor operator()(const Tensor& x) const { return norm(conv(x)); }
};

TEST(Run, GivesExactBits) {
  Normalised model;
  nn::state_dict(model).at("norm.running_var").fill_(0.3);
  nn::eval(model);
  const Tensor x = normal({1, 3, 9, 9});
  onnx::save(folder() + "norm.onnx", model, {{"x", f32, {1, 3, 9, 9}}}, {.outputs = {"y"}});
  io::save_npy(folder() + "norm_x.npy", x);
  const auto bits = [&](const std::string& options) {
    const Output shown = run("run norm.onnx --input x=norm_x.npy --output . " + options);
    EXPECT_EQ(shown.status, 0) << shown.err;
    return io::load_npy(folder() + "y.npy").to_vector<float>();
  };
  const Graph graph = onnx::load(folder() + "norm.onnx", {.trainable = false}).graph();
  const auto exact = Session(graph).run(graph.outputs(), {{"x", x}}).at(0).to_vector<float>();
  EXPECT_EQ(bits("--exact"), exact);
  EXPECT_NE(bits(""), exact);
  EXPECT_EQ(run("bench norm.onnx --exact --runs 3").status, 0);
}

TEST(Run, SaysWhatWouldBeRight) {
  write_model("wrong.onnx");
  const Output missing = run("run wrong.onnx");
  EXPECT_EQ(missing.status, 1);
  EXPECT_EQ(missing.err,
            "dyad: 'wrong.onnx': an input is not given: \"x\" (f32[batch, 3]); give a file for "
            "each, or a seed to draw them from\n");
  io::save_npy(folder() + "wide.npy", zeros({2, 4}));
  const Output wide = run("run wrong.onnx --input x=wide.npy");
  EXPECT_EQ(wide.status, 1);
  EXPECT_EQ(wide.err,
            "dyad: 'wrong.onnx': input \"x\" (f32[batch, 3]) is given f32[2, 4]; it needs the "
            "sizes that are numbers\n");
  EXPECT_THAT(run("run wrong.onnx --input z=wide.npy").err,
              HasSubstr("there is no input \"z\"; its inputs are \"x\" (f32[batch, 3])"));
}

/// A model for pictures that are 5 wide or wider, which nobody says.
TEST(Run, NamesTheSizesThatNobodyTold) {
  onnx::save(folder() + "picture.onnx", [](const Tensor& x) { return avg_pool2d(x, {5, 5}); },
             {{"x", f32, {1, 1, "height", "width"}}});
  for (const char* command : {"run picture.onnx --random 0", "bench picture.onnx"}) {
    const Output wrong = run(std::string(command) + " --dim height=9");
    EXPECT_EQ(wrong.status, 1);
    EXPECT_THAT(wrong.err, EndsWith("\n  sizes that --dim does not tell are 1: width\n"))
        << command;
  }
  EXPECT_EQ(run("run picture.onnx --random 0 --dim height=9 --dim width=9").status, 0);
}

TEST(Bench, TellsTimesAndWhereTheyGo) {
  write_model("bench.onnx");
  const Output shown = run("bench bench.onnx --runs 3 --dim batch=2 --threads 1");
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(StartsWith("batch = 2, 1 thread\n"), HasSubstr("\nmedian "),
                               HasSubstr("of 3 runs"), HasSubstr("peak memory"),
                               HasSubstr("Time by operator"), HasSubstr("Gemm")));
  EXPECT_EQ(shown.err, "");
  const json report = json::parse(run("bench bench.onnx --runs 3 --dim batch=2 --json").out);
  EXPECT_EQ(report["runs"], 3);
  EXPECT_EQ(report["sizes"]["batch"], 2);
  for (const char* number : {"load_ms", "compile_ms", "first_run_ms", "median_ms", "p90_ms"}) {
    EXPECT_GT(report[number].get<double>(), 0) << number;
  }
  EXPECT_FALSE(report["operators"].empty());
}

TEST(Bench, TimesAProgram) {
  const std::string program = saved_program();
  const Output shown = run("bench " + program + " --runs 3 --dim n=5 --threads 1");
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(StartsWith("n = 5, 1 thread\n"), HasSubstr("of 3 runs"),
                               HasSubstr("\n  kernel  calls  "), HasSubstr("mul")));
  io::save_npy(folder() + "four.npy", ones({4, 2}));
  const Output fed = run("bench " + program + " --runs 3 --exact --input x=four.npy --json");
  EXPECT_EQ(fed.status, 0) << fed.err;
  const json report = json::parse(fed.out);
  EXPECT_EQ(report["runs"], 3);
  EXPECT_EQ(report["operators"][0]["kernel"], "mul");
  EXPECT_GT(report["first_run_ms"].get<double>(), 0);
  EXPECT_EQ(run("bench " + program + " --dim m=5").status, 1);
}

TEST(Opt, RunsPassesOnAGraphInTextForm) {
  std::ofstream(folder() + "graph.txt") << R"(graph {
  %x = placeholder : f32[4]
  %a = exp(%x) : f32[4]
  %b = exp(%x) : f32[4]
  %y = add(%a, %b) : f32[4]
  return %y
})";
  const Output merged = run("opt graph.txt --pass cse");
  EXPECT_EQ(merged.out,
            "graph {\n  %x = placeholder : f32[4]\n  %0 = exp(%x) : f32[4]\n"
            "  %1 = add(%0, %0) : f32[4]\n  return %1\n}\n");
  EXPECT_EQ(merged.status, 0) << merged.err;
  EXPECT_THAT(run("opt - < graph.txt").out, HasSubstr(" = fused(%x) : f32[4]"));
  EXPECT_THAT(run("opt graph.txt --without fuse,cse").out, HasSubstr("add(%0, %1)"));
  EXPECT_THAT(run("opt graph.txt --pass cse,dce --each").out,
              AllOf(StartsWith("// as given\ngraph {"), HasSubstr("\n// after cse\ngraph {"),
                    HasSubstr("\n// after dce\ngraph {")));
  const Output listed = run("passes");
  EXPECT_EQ(listed.status, 0);
  EXPECT_THAT(listed.out, AllOf(HasSubstr("\ncse "), HasSubstr("\nfuse "), HasSubstr(" needed\n"),
                                HasSubstr(" by --fast-math\n")));
}

TEST(Opt, TellsWhatEachPassDoesAsJsonAndAsAPage) {
  std::ofstream(folder() + "told.txt") << R"(graph {
  %x = placeholder : f32[n] @model.cpp:3
  %a = exp(%x) @model.cpp:4
  %b = exp(%x) @model.cpp:5
  %y = mul(%a, %b) @model.cpp:6
  return %y
})";
  const Output shown = run("opt told.txt --pass cse,dce --json");
  EXPECT_EQ(shown.status, 0) << shown.err;
  const json told = json::parse(shown.out);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0]["graph"], "told.txt");
  EXPECT_THAT(told[0]["text"].get<std::string>(), HasSubstr("%1 = exp(%x) : f32[n] @model.cpp:5"));
  ASSERT_EQ(told[0]["passes"].size(), 2u);
  const json &cse = told[0]["passes"][0], &dce = told[0]["passes"][1];
  EXPECT_EQ(cse["name"], "cse");
  EXPECT_EQ(cse["operators_before"], 3);
  EXPECT_EQ(cse["operators_after"], 2);
  EXPECT_THAT(cse["text"].get<std::string>(), HasSubstr("%1 = mul(%0, %0)"));
  EXPECT_EQ(dce["name"], "dce");
  EXPECT_EQ(dce["changed"], false);
  EXPECT_FALSE(dce.contains("text"));

  const Output page = run("opt told.txt --no-lines --html told.html");
  EXPECT_EQ(page.status, 0);
  EXPECT_EQ(page.out, "");
  EXPECT_EQ(page.err, "wrote told.html\n");
  EXPECT_THAT(contents(folder() + "told.html"),
              AllOf(StartsWith("<!doctype html>"), HasSubstr("<h2>Passes: told.txt</h2>"),
                    HasSubstr("<del>-   %was1 = exp(%x) : f32[n]\n")));
  EXPECT_THAT(run("opt - --each --html told.html --pass cse < told.txt").out,
              StartsWith("// as given\ngraph {"));
  EXPECT_THAT(contents(folder() + "told.html"), HasSubstr("<h2>Passes: standard input</h2>"));
  for (const char* other : {"--each", "--notes", "--plan --dim n=2"})
    EXPECT_EQ(run("opt told.txt --json " + std::string(other)).status, 2) << other;
  EXPECT_EQ(run("opt told.txt --html no/such/folder/x.html").status, 1);
}

TEST(Opt, PlansTheGraphThatRuns) {
  std::ofstream(folder() + "plan.txt") << R"(graph {
  %x = placeholder : f32[n, 4] @model.cpp:3
  %w = variable : f32[4, 4]
  %a = exp(%x) @model.cpp:4
  %b = matmul(%a, %w) @model.cpp:5
  return %b
})";
  const Output plan = run("opt plan.txt --plan --dim n=8");
  EXPECT_EQ(plan.out,
            "steps:\n"
            "  0: exp(%x) -> %0 @model.cpp:4\n"
            "  1: matmul(%0, %w) -> %1 @model.cpp:5\n"
            "buffers:\n"
            "  %x: placeholder, 128 bytes, step 0\n"
            "  %w: variable, 64 bytes, step 1\n"
            "  %0: arena at 0, 128 bytes, steps 0 to 1\n"
            "  %1: output, 128 bytes, step 1\n"
            "arena: 128 bytes, live peak 128, without sharing 128\n"
            "results: 128 bytes\n");
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_THAT(run("opt plan.txt --pass cse --each --plan --no-lines --dim n=8").out,
              AllOf(StartsWith("// as given\ngraph {"), HasSubstr("\n// after cse\ngraph {"),
                    HasSubstr("\n// the plan\nsteps:\n  0: exp(%x) -> %0\n")));
  EXPECT_THAT(run("opt --help").out, AllOf(HasSubstr("--plan --dim n=32"), HasSubstr("over %1")));

  const Output no_size = run("opt plan.txt --plan");
  EXPECT_EQ(no_size.err,
            "dyad: a plan needs numbers for sizes of the placeholders: n; add, for example, "
            "--dim n=32\n");
  EXPECT_EQ(no_size.status, 1);
  EXPECT_EQ(run("opt plan.txt --plan --dim n=8 --dim m=8").err,
            "dyad: no size of the graph is called m\n");
  EXPECT_THAT(run("opt plan.txt --plan --dim n=many").err, HasSubstr("'many' is no size"));
  EXPECT_EQ(run("opt plan.txt --dim n=8").status, 0);
  std::ofstream(folder() + "open.txt") << R"(graph {
  %x = placeholder : f32[4]
  %y = nonzero(%x)
  return %y
})";
  EXPECT_THAT(run("opt open.txt --plan").err,
              StartsWith("dyad: data decide on the sizes of %0 = nonzero: "));
}

TEST(Opt, ComputesAgainUnderAMemoryLimitAndSaysWhyKernelsAreApart) {
  std::ofstream(folder() + "kept.txt") << R"(graph {
  %x = placeholder : f32[n, 4] @model.cpp:3
  %w = variable : f32[4, 4]
  %a = exp(%x) @model.cpp:4
  %b = matmul(%a, %w) @model.cpp:5
  %c = matmul(%b, %w) @model.cpp:6
  %d = matmul(%c, %w) @model.cpp:7
  %y = mul(%d, %a) @model.cpp:8
  return %y
})";
  const auto made = [](const std::string& arguments) {
    const Output out = run("opt kept.txt --no-lines " + arguments);
    EXPECT_EQ(out.status, 0) << out.err;
    std::size_t count = 0;
    for (std::size_t at = 0; (at = out.out.find("exp(", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(made(""), 1);
  EXPECT_EQ(made("--memory-limit 1 --dim n=100000"), 2);
  EXPECT_EQ(made("--memory-limit 1 --dim n=100"), 1);
  std::ofstream(folder() + "apart.txt") << R"(graph {
  %x = placeholder : f32[4, 4] @model.cpp:3
  %a = exp(%x) @model.cpp:4
  %t = permute(%a) {axes = [1, 0]} @model.cpp:5
  %y = sin(%t) @model.cpp:6
  return %y, %a
})";
  EXPECT_THAT(run("opt apart.txt --notes").out,
              HasSubstr("}\n// model.cpp:6: exp and sin have kernels of their own, 64 bytes "
                        "between them: the result of "
                        "exp is read elsewhere too, not only through permute\n"));
  EXPECT_EQ(run("opt apart.txt --dim n=1").err, "dyad: no size of the graph is called n\n");
}

TEST(Opt, PlansTheGraphsInsideIt) {
  std::ofstream(folder() + "choice.txt") << R"(graph {
  %p = placeholder : bool[]
  %x = placeholder : f32[n]
  %y = cond(%p, %x) : f32[n]
    region {
      %x = placeholder : f32[n]
      %a = exp(%x)
      %b = sin(%a)
      return %b
    }
    region {
      %x = placeholder : f32[n]
      return %x
    }
  return %y
})";
  const std::string given =
      "  0: cond(%p, %x) -> %0\n    region 1 of 2:\n      steps:\n        0: ";
  EXPECT_THAT(run("opt choice.txt --plan --dim n=4").out, HasSubstr(given + "exp+sin(%x) -> %0\n"));
  EXPECT_THAT(run("opt choice.txt --plan --dim n=4 --without fuse").out,
              HasSubstr(given + "exp(%x) -> %0\n        1: sin(%0) -> %1\n"));
  EXPECT_THAT(run("opt choice.txt --plan --dim n=4 --pass cse").out,
              AllOf(HasSubstr(given + "exp(%x) -> %0\n"),
                    HasSubstr("        0: copy(%x) -> copy of %x\n")));
}

TEST(Opt, SaysWhatIsWrong) {
  std::ofstream(folder() + "bad.txt") << "graph {\n  %x = nothing()\n}";
  const Output bad = run("opt bad.txt");
  EXPECT_EQ(bad.status, 1);
  EXPECT_THAT(bad.err, HasSubstr("line 2, column "));
  EXPECT_EQ(run("opt missing.txt").err, "dyad: cannot read 'missing.txt'\n");
  std::ofstream(folder() + "empty.txt") << "graph {\n  return\n}";
  EXPECT_THAT(run("opt empty.txt --pass csf").err,
              StartsWith("dyad: there is no pass 'csf'; there are sink_assigns, "));
  EXPECT_THAT(run("opt empty.txt --without csf").err,
              StartsWith("dyad: passes_off: there is no pass 'csf'; those that can be switched "));
  EXPECT_EQ(run("opt empty.txt --pass cse --without dce").status, 2);
}

TEST(OnnxTest, CountsCases) {
  const std::string source = fs::current_path();
  const Output passed = run("onnx-test '" + source + "/tests/onnx/cases/loop_in_a_loop'");
  EXPECT_EQ(passed.status, 0) << passed.out;
  EXPECT_THAT(passed.out, EndsWith("1 passed, 0 failed, 0 skipped\n"));
  const Output none = run("onnx-test nowhere");
  EXPECT_EQ(none.status, 1);
  EXPECT_EQ(none.err, "dyad: 'nowhere' is no folder\n");
  fs::create_directories(folder() + "bare/folder");
  EXPECT_THAT(run("onnx-test bare").err, StartsWith("dyad: 'bare' holds no case: "));
}

TEST(OnnxTest, ListsResults) {
  fs::create_directories(folder() + "list/unsupported");
  write_unsupported("list/unsupported/model.onnx");
  fs::copy("tests/onnx/cases/loop_in_a_loop", folder() + "list/good",
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  fs::copy("tests/onnx/cases/loop_in_a_loop", folder() + "list/wrong",
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  std::ofstream(folder() + "list/wrong/tolerance.txt") << "none";
  const Output shown = run("onnx-test list --json list.json");
  EXPECT_EQ(shown.status, 1);
  EXPECT_THAT(shown.out, AllOf(StartsWith("unsupported: skipped: "),
                               HasSubstr("\nwrong: tolerance.txt holds "),
                               EndsWith("\n1 passed, 1 failed, 1 skipped\n")));
  const json list = json::parse(contents(folder() + "list.json"));
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0], json::parse(R"({"case": "good", "result": "passed", "reason": ""})"));
  EXPECT_EQ(list[1]["result"], "skipped");
  EXPECT_EQ(list[2]["result"], "failed");
  EXPECT_EQ(run("onnx-test list/unsupported").status, 0);
  const Output unwritable = run("onnx-test list/good --json nowhere/list.json");
  EXPECT_EQ(unwritable.status, 1);
  EXPECT_THAT(unwritable.err, HasSubstr("nowhere/list.json"));
}

}  // namespace
}  // namespace dyad::testing
