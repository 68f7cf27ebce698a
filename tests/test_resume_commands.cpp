// resume, branch and replay from outside: whole runs that end badly, what is refused, and what stays as it was.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "tests/catch.h"
#include "tests/commands.h"
#include "tests/database.h"
#include "train/metrics_db.h"
#include "train/run_folder.h"

namespace fs = std::filesystem;
using namespace nascent::test;
using nascent::RunFolder;

namespace {

const std::string kNoProbes = " --set probes.on=false ";

std::string quoted(const std::vector<std::string>& set) {
  std::string arguments;
  for (const std::string& s : set) arguments += fmt::format(" --set '{}'", s);
  return arguments;
}

void require(const Outcome& outcome, int exit_code = 0) {
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == exit_code);
}

// Trains in the background until a checkpoint is there, then runs shell commands, $! being the training process.
Outcome train_and(const Workplace& place, const std::string& arguments, const std::string& until,
                  const std::string& commands) {
  write(place.path / "script.sh",
        fmt::format("'{0}' train {1} >train.log 2>&1 &\nuntil [ -e '{2}' ]; do kill -0 $! || exit 99; done\n{3}\n",
                    NASCENT_PROGRAM, arguments, until, commands));
  const std::string command = fmt::format("cd '{}' && sh script.sh 2>&1", place.path.string());
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) outcome.output += static_cast<char>(c);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

// Every file of a run but metrics.db, with its content.
std::map<std::string, std::string> files_of(const fs::path& run) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    const std::string name = entry.path().filename();
    if (entry.is_regular_file() && !name.starts_with("metrics.db") && name != "lock") {
      files[entry.path().lexically_relative(run)] = read(entry.path());
    }
  }
  return files;
}

void flip_a_byte(const fs::path& path) {
  std::string text = read(path);
  text[text.size() / 2] ^= 1;
  write(path, text);
}

}  // namespace

TEST_CASE("a run killed at any moment can be read, and resumed it ends as if nothing had happened") {
  const Workplace place;
  const std::vector<std::string> set = {"schedule.kind=constant", "probes.early.until=steps 9",
                                        R"(checkpoints.at=["every 20"])", R"(eval.at=["every 7"])"};
  const Outcome killed = train_and(place, "tiny.toml --set name=killed --set train.steps=100000" + quoted(set),
                                   "runs/killed/checkpoints/step_00000020", "kill -KILL $!\nwait $!");
  INFO(killed.output);
  CHECK(killed.exit_code == 128 + 9);
  CHECK(place.run("info runs/killed").says("resumable: those of steps "));
  const std::int64_t last = RunFolder::open(place.path / "runs/killed").checkpoint_steps().back();
  const std::string steps = fmt::format(" --set train.steps={}", last + 15);
  require(place.run("resume runs/killed" + steps));
  require(place.run("train tiny.toml --set name=whole" + steps + quoted(set)));
  CHECK(read(place.weights("killed", static_cast<int>(last) + 15)) ==
        read(place.weights("whole", static_cast<int>(last) + 15)));
  const auto records = records_of(place.path / "runs/whole/metrics.db");
  CHECK(records.size() > 1000);
  CHECK(difference(records_of(place.path / "runs/killed/metrics.db"), records) == "");
}

TEST_CASE("a run ended by a signal and resumed has the records and checkpoints of one that was not") {
  const Workplace place;
  const std::vector<std::string> set = {"schedule.kind=constant", "probes.early.until=steps 9", "eval.ngrams=true"};
  const Outcome ended = train_and(place, "tiny.toml --set name=ended --set train.steps=100000" + quoted(set),
                                  "runs/ended/checkpoints/step_00000008", "kill -TERM $!\nwait $!");
  CHECK(ended.exit_code == 128 + 15);
  CHECK(read(place.path / "train.log").find("To go on: nascent resume runs/ended\n") != std::string::npos);
  const std::int64_t last = RunFolder::open(place.path / "runs/ended").checkpoint_steps().back();
  const std::string steps = fmt::format(" --set train.steps={}", last + 5);
  const Outcome resumed = place.run("resume runs/ended" + steps);
  require(resumed);
  CHECK(resumed.says(fmt::format("runs/ended: going on from step {}\n", last)));
  CHECK(resumed.says("training, step 0 "));
  CHECK(resumed.says("held out, trigram"));
  require(place.run("train tiny.toml --set name=whole" + steps + quoted(set)));
  CHECK(difference(records_of(place.path / "runs/ended/metrics.db"),
                   records_of(place.path / "runs/whole/metrics.db")) == "");
  CHECK(read(place.weights("ended", static_cast<int>(last) + 5)) ==
        read(place.weights("whole", static_cast<int>(last) + 5)));
}

TEST_CASE("a complete run says so and changes nothing, with more steps it goes on") {
  const Workplace place;
  require(place.run("train tiny.toml" + kNoProbes));
  const auto files = files_of(place.path / "runs/tiny");
  const Outcome complete = place.run("resume runs/tiny");
  CHECK(complete.exit_code == 0);
  CHECK(complete.output == "runs/tiny: the run is complete, 3 of 3 steps; --set train.steps=N makes it longer\n");
  CHECK(files_of(place.path / "runs/tiny") == files);
  const Outcome longer = place.run("resume runs/tiny --set train.steps=6");
  require(longer);
  CHECK(longer.says("train.steps = 6 (was 3): the cosine schedule depends on it"));
  CHECK(fs::exists(place.weights("tiny", 6)));
  CHECK(query(place.path / "runs/tiny/metrics.db", "SELECT kind, text FROM events WHERE attempt = 2 AND step = 3") ==
        std::vector<std::string>{"resumed|step_00000003", "changed|train.steps = 6 (was 3)"});
}

TEST_CASE(
    "resume refuses another model, other data and other keys in one line that names the key and what may change") {
  const Workplace place;
  require(place.run("train tiny.toml --set train.steps=2" + kNoProbes));
  const std::string list =
      "; resume may change only train.steps, train.not_finite, train.most_skips, eval.*, checkpoints.*, probes.on, "
      "probes.*.on, "
      "probes.*.at, data.tokens, data.tokenizer, threads";
  const auto files = files_of(place.path / "runs/tiny");
  check_refused(
      place,
      {{"resume runs/none", "nascent: runs/none: not a run's folder: expected config.toml and checkpoints in it"},
       {"resume runs/tiny --set model.width=32",
        "nascent: model.width = 32, but the checkpoint was saved with 16" + list},
       {"resume runs/tiny --set optimizer.lr=1.0",
        "nascent: optimizer.lr = 1.0, but the checkpoint was saved with 0.0006" + list},
       {"resume runs/tiny --set seed.data=4", "nascent: seed.data = 4, but the checkpoint was saved with 1" + list},
       {"resume runs/tiny --set train.setps=4",
        "nascent: --set train.setps=4: unknown key train.setps; did you mean train.steps?"},
       {"resume runs/tiny --set train.steps=1",
        "nascent: train.steps = 1: the checkpoint has 2 steps behind it already"},
       {"resume runs/tiny --from 7",
        "nascent: runs/tiny/checkpoints/step_00000007: no such checkpoint; resumable are those of steps 1, 2"},
       {"resume runs/tiny --from 0",
        "nascent: runs/tiny/checkpoints/step_00000000: holds no optimizer and state to go on from; resumable are those "
        "of "
        "steps 1, 2"}});

  // The file edited by hand, and data that changed under the same name.
  const std::string config = files.at("config.toml");
  std::string edited = config;
  edited.replace(edited.find("heads = 2"), 9, "heads = 4");
  write(place.path / "runs/tiny/config.toml", edited);
  check_refused(place, {{"resume runs/tiny", "nascent: model.heads = 4, but the checkpoint was saved with 2" + list}});
  write(place.path / "runs/tiny/config.toml", config);
  write(place.path / "other.txt", small_text() + "the king\n");
  require(place.run("corpus tokenize other.txt --tokenizer tiny.model --out other --append-eos"));
  require(place.run("corpus tokenize tiny.txt --tokenizer tiny.model --out moved --append-eos"));
  require(place.run("corpus train-tokenizer other.txt --vocab 300 --algorithm bpe --out other.model"));
  check_refused(place,
                {{"resume runs/tiny --set train.steps=4 --set data.tokens=other",
                  "nascent: data.tokens = \"other\": these are not the tokens that the checkpoint was trained on"},
                 {"resume runs/tiny --set train.steps=4 --set data.tokenizer=other.model",
                  "nascent: data.tokenizer = \"other.model\": not the tokenizer that the checkpoint holds"}});
  CHECK(files_of(place.path / "runs/tiny") == files);
  require(place.run("resume runs/tiny --set train.steps=4 --set data.tokens=moved"));

  fs::remove_all(place.path / "runs/tiny/checkpoints");
  fs::create_directory(place.path / "runs/tiny/checkpoints");
  check_refused(place,
                {{"resume runs/tiny",
                  "nascent: runs/tiny: the run has no checkpoint yet; nascent train --overwrite begins it again"}});
}

TEST_CASE("other threads are refused where the bits are promised, and recorded where they are not") {
  const Workplace place;
  require(place.run("train tiny.toml --set threads=1 --set train.steps=2" + kNoProbes));
  check_refused(place,
                {{"resume runs/tiny --set train.steps=4 --set threads=2",
                  "nascent: runs/tiny/checkpoints/step_00000002: number of threads is 2, was 1; the bits would be "
                  "others, --inexact goes on all the same"}});
  require(place.run("resume runs/tiny --set train.steps=4 --set threads=2 --inexact"));
  CHECK(query(place.path / "runs/tiny/metrics.db", "SELECT step, text FROM events WHERE kind = 'inexact'") ==
        std::vector<std::string>{"2|number of threads is 2, was 1"});
}

TEST_CASE("a damaged last checkpoint is named, and the one before taken only when asked for") {
  const Workplace place;
  require(place.run("train tiny.toml --set train.steps=6" + kNoProbes));
  const std::string before = read(place.weights("tiny", 6));
  flip_a_byte(place.weights("tiny", 6).parent_path() / "optimizer.safetensors");
  const std::string refusal =
      "nascent: runs/tiny/checkpoints/step_00000006/optimizer.safetensors: damaged: its content is not what it was "
      "when "
      "saved; --from 4 goes on from the last one that is whole";
  check_refused(place, {{"resume runs/tiny", refusal}});
  require(place.run("resume runs/tiny --from 4"));
  CHECK(read(place.weights("tiny", 6)) == before);
  CHECK(fs::exists(place.path / "runs/tiny/checkpoints/step_00000006.before_attempt_2"));
  CHECK(query(place.path / "runs/tiny/metrics.db", "SELECT text FROM events WHERE kind = 'set_aside'") ==
        std::vector<std::string>{"1 later checkpoints"});

  flip_a_byte(place.weights("tiny", 6));
  flip_a_byte(place.weights("tiny", 4).parent_path() / "state.json");
  check_refused(place,
                {{"resume runs/tiny",
                  "nascent: runs/tiny/checkpoints/step_00000006/model.safetensors: damaged: its content is not what "
                  "it was when saved; no other checkpoint can be resumed from"}});
}

TEST_CASE("a second process in the folder of a run is refused and disturbs nothing") {
  const Workplace place;
  const std::string program = NASCENT_PROGRAM;
  const Outcome outcome = train_and(
      place, "tiny.toml --set train.steps=10000000 " + kNoProbes, "runs/tiny/checkpoints/step_00000004",
      fmt::format("for c in 'resume runs/tiny' 'train tiny.toml --overwrite' 'replay runs/tiny --from 0 --to 1'; do\n"
                  "'{}' $c; echo \"status $?\"; done\necho \"pid $!\"; kill -0 $! && kill -TERM $!\nwait $!",
                  program));
  INFO(outcome.output);
  CHECK(outcome.exit_code == 128 + 15);
  std::size_t refusals = 0;
  const std::string pid = outcome.output.substr(outcome.output.find("pid ") + 4);
  const std::string line = fmt::format("nascent: runs/tiny: process {} on ", pid.substr(0, pid.find('\n')));
  for (std::size_t at = 0; (at = outcome.output.find(line, at)) != std::string::npos; ++at) ++refusals;
  CHECK(refusals == 3);
  CHECK(outcome.says("writes in this run's folder; wait until it ends\nstatus 2\n"));
  CHECK(fs::exists(place.weights("tiny", 0)));
  CHECK(query(place.path / "runs/tiny/metrics.db", "SELECT count(*) FROM runs") == std::vector<std::string>{"1"});
}

TEST_CASE("a save on a full disk ends the run and leaves the checkpoint before it, from which the run is resumed") {
  const Workplace place;
  // A checkpoint of several megabytes: metrics.db stays far below the limit.
  const std::vector<std::string> set = {"data.heldout=0.0",       "model.width=128", "model.layers=4",
                                        "schedule.kind=constant", "probes.on=false", R"(checkpoints.at=["step 2"])",
                                        R"(eval.at=["never"])"};
  require(place.run("train tiny.toml --set name=full --set train.steps=2" + quoted(set)));
  const auto files = files_of(place.path / "runs/full/checkpoints");
  write(place.path / "limited.sh", fmt::format("ulimit -f 2000\n'{}' \"$@\"\n", NASCENT_PROGRAM));
  // The shell's limit is in blocks of 512 or 1024 bytes: the model alone needs more than 3 MB.
  const std::string command =
      fmt::format("cd '{}' && sh limited.sh resume runs/full --set train.steps=4 >full.log 2>&1", place.path.string());
  const int status = std::system(command.c_str());
  const std::string log = read(place.path / "full.log");
  INFO(log);
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(log.find("nascent: runs/full/checkpoints/step_00000004.partial/") != std::string::npos);
  CHECK(log.find("File too large") != std::string::npos);
  CHECK(files_of(place.path / "runs/full/checkpoints") == files);
  CHECK(place.run("generate runs/full --prompt the --tokens 1").exit_code == 0);

  require(place.run("resume runs/full"));
  require(place.run("train tiny.toml --set name=whole --set train.steps=4" + quoted(set)));
  CHECK(read(place.weights("full", 4)) == read(place.weights("whole", 4)));
  CHECK(difference(records_of(place.path / "runs/full/metrics.db"), records_of(place.path / "runs/whole/metrics.db")) ==
        "");
}

TEST_CASE("a checkpoint folder that cannot be written ends the run and leaves the checkpoint before it") {
  if (::geteuid() == 0) return;  // root writes everywhere
  const Workplace place;
  require(place.run("train tiny.toml --set train.steps=2" + kNoProbes));
  const fs::path checkpoints = place.path / "runs/tiny/checkpoints";
  const auto files = files_of(checkpoints);
  REQUIRE(::chmod(checkpoints.c_str(), 0555) == 0);
  const Outcome outcome = place.run("resume runs/tiny --set train.steps=4");
  REQUIRE(::chmod(checkpoints.c_str(), 0755) == 0);
  INFO(outcome.output);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.says("step_00000004.partial: cannot make this checkpoint's folder: Permission denied"));
  CHECK(files_of(checkpoints) == files);
  require(place.run("resume runs/tiny"));
}

TEST_CASE("a replay with other probes adds their records and changes nothing else") {
  const Workplace place;
  const std::vector<std::string> all = {R"(probes.taps=["*"])", "probes.rank=5", "probes.early.until=steps 18"};
  require(place.run("train tiny.toml --set train.steps=25" + kNoProbes));
  require(place.run("train tiny.toml --set train.steps=25 --set name=probed" + quoted(all)));
  const fs::path metrics = place.path / "runs/tiny/metrics.db";
  const auto files = files_of(place.path / "runs/tiny");
  const std::string steps_query = "SELECT * FROM steps ORDER BY step, attempt";
  const auto steps = query(metrics, steps_query);

  const Outcome outcome = place.run("replay runs/tiny --from 10 --to 20 --set probes.on=true" + quoted(all));
  require(outcome);
  CHECK(outcome.says(
      "21 steps have the recorded losses to the bit; the records of steps 10 to 20 are in runs/tiny/metrics.db"));
  CHECK(files_of(place.path / "runs/tiny") == files);
  CHECK(difference(query(metrics, steps_query), steps) == "");
  CHECK(query(metrics, "SELECT attempt, kind, text FROM events WHERE attempt = 2") ==
        std::vector<std::string>{"2|replay|steps 10 to 20 again, from step 0"});
  // The records are those of a run that had the probes from the start.
  const std::string points =
      "SELECT step, probe, tap, key, labels, value, n, reason FROM points JOIN series ON id = series WHERE key <> "
      "'seconds' "
      "AND probe <> 'eval' AND step BETWEEN 10 AND 20 ORDER BY 1, 2, 3, 4, 5";
  const auto expected = query(place.path / "runs/probed/metrics.db", points);
  CHECK(expected.size() > 1000);
  CHECK(difference(query(metrics, points), expected) == "");
  CHECK(query(metrics, "SELECT DISTINCT attempt FROM points JOIN series ON id = series WHERE probe <> 'eval'") ==
        std::vector<std::string>{"2"});
  CHECK(query(metrics,
              "SELECT count(*) FROM points JOIN series ON id = series WHERE probe <> 'eval' AND step NOT BETWEEN 10 "
              "AND 20") == std::vector<std::string>{"0"});
  require(place.run("resume runs/tiny --set train.steps=27"));
}

TEST_CASE("a replay starts from the last checkpoint that keeps what its probes need, else from the beginning") {
  const Workplace place;
  const std::string program = "train tiny.toml --set train.steps=25" + quoted({R"(checkpoints.resumable=["every 8"])"});
  require(place.run(program));
  const Outcome same = place.run("replay runs/tiny --from 18 --to 20 --set probes.norms.on=false");
  require(same);
  CHECK(same.says("replaying steps 18 to 20 from step 16\n"));
  const Outcome started = place.run("replay runs/tiny --from 18 --to 20 --start 8");
  require(started);
  CHECK(started.says("13 steps have the recorded losses to the bit"));
  // Detailed steps make the basis `early`, which is there at step 16 but not yet at step 8.
  CHECK(place.run(R"(replay runs/tiny --from 18 --to 20 --set 'probes.detail=["every 1"]')").says("from step 16\n"));
  for (const char* other :
       {R"('probes.taps=["blocks.0.attn_out"]')", "probes.rank=3", R"('probes.detail=["every 1"]')"}) {
    const Outcome outcome = place.run(fmt::format("replay runs/tiny --from 9 --to 9 --set {}", other));
    require(outcome);
    CHECK(outcome.says("not from the checkpoint of step 8: "));
    CHECK(outcome.says("replaying steps 9 to 9 from step 0\n"));
  }
  check_refused(place,
                {{"replay runs/tiny --from 9 --to 9 --start 8 --set probes.rank=3",
                  "nascent: runs/tiny/checkpoints/step_00000008: probes.rank was 16"},
                 {"replay runs/tiny --from 9 --to 25", "nascent: --from 9 --to 25: runs/tiny has the steps 0 to 24"},
                 {"replay runs/tiny --from 9 --to 8", "nascent: --from 9 --to 8: runs/tiny has the steps 0 to 24"},
                 {"replay runs/tiny --from 9 --to 9 --start 16", "nascent: --start 16 is after --from 9"},
                 {"replay runs/tiny --from 9 --to 9 --set train.batch=2",
                  "nascent: train.batch = 2: a replay may change only probes.*, the run has 4"}});
}

TEST_CASE("a replay stops at the step whose recorded loss is another by one bit") {
  const Workplace place;
  require(place.run("train tiny.toml --set train.steps=15" + kNoProbes));
  const fs::path metrics = place.path / "runs/tiny/metrics.db";
  const double loss = nascent::MetricsDb::open_for_reading(metrics).step(12)->loss;
  const double other = std::nextafter(loss, 100);
  query(metrics, fmt::format("UPDATE steps SET loss = {} WHERE step = 12", other));
  const Outcome outcome =
      place.run("replay runs/tiny --from 10 --to 14 --set probes.on=true 2>&1 >/dev/null | tail -n 1");
  CHECK(outcome.output ==
        fmt::format("nascent: step 12: the loss is {}, recorded was {}; this is not the recorded run any "
                    "more\n",
                    loss, other));
  CHECK(place.run("replay runs/tiny --from 10 --to 14 --set probes.on=true").exit_code == 1);
  CHECK(query(metrics, "SELECT DISTINCT step FROM points JOIN series ON id = series WHERE probe = 'norms'") ==
        std::vector<std::string>{"10", "11"});
  CHECK(place.run("replay runs/tiny --from 5 --to 11").exit_code == 0);
}

TEST_CASE("a branch may change every key but those of the model's sizes, and leaves its parent as it is") {
  const Workplace place;
  require(place.run("train tiny.toml --set train.steps=12" + quoted({R"(checkpoints.resumable=["step 4"])"})));
  const auto files = files_of(place.path / "runs/tiny");
  require(place.run("branch runs/tiny --step 4 --name same"));
  CHECK(read(place.weights("same", 12)) == read(place.weights("tiny", 12)));
  const Outcome other = place.run("branch runs/tiny --step 4 --name other" +
                                  quoted({"optimizer.lr=0.01", "train.batch=6", "data.sequence=8", "probes.rank=3"}));
  require(other);
  CHECK(other.says("other: another order of samples, begun at its first\n"));
  CHECK(other.says("other: probes.rank was 16: their state begins anew at step 4\n"));
  CHECK(other.says("training, step 4 "));
  CHECK(read(place.weights("other", 12)) != read(place.weights("tiny", 12)));
  CHECK(files_of(place.path / "runs/tiny") == files);
  CHECK(place.run("info runs/other").says("resumable: those of steps 4, 8, 12"));

  const std::string list =
      "; a branch may change every key but precision, model.family, model.preset, model.vocab, model.context, "
      "model.width, "
      "model.layers, model.heads, model.hidden";
  check_refused(place, {{"branch runs/tiny --step 4 --name new --set model.layers=2",
                         "nascent: model.layers = 2, but the checkpoint's is 1" + list},
                        {"branch runs/tiny --step 4 --name new --set data.sequence=32",
                         "nascent: data.sequence = 32 is longer than the model's context of 16"},
                        {"branch runs/tiny --step 4 --name new --set train.steps=4",
                         "nascent: train.steps = 4: the checkpoint has 4 steps behind it already"},
                        {"branch runs/tiny --step 2 --name new",
                         "nascent: runs/tiny/checkpoints/step_00000002: holds no optimizer and state to go on from; "
                         "resumable are those of "
                         "steps 4, 8, 12"},
                        {"branch runs/tiny --step 4 --name same",
                         "nascent: runs/same: exists; choose another name for the branch"},
                        {"train runs/same/config.toml --overwrite",
                         "nascent: branch.parent = \"runs/tiny\": this run did not begin from its initialization; "
                         "nascent branch runs/tiny "
                         "--step 4"}});
  CHECK_FALSE(fs::exists(place.path / "runs/new"));
}
