// The command line. Each subcommand is one function of one file; here are only its words.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "kernels/settings.h"
#include "train/branch.h"
#include "train/corpus.h"
#include "train/generate.h"
#include "train/info.h"
#include "train/measure.h"
#include "train/replay.h"
#include "train/resume.h"
#include "train/train.h"

using namespace nascent;

namespace {

CLI::Option* add_set(CLI::App& command, TrainOptions& options) {
  return command
      .add_option("--set", options.set, "A key in place of the file's, such as train.steps=20; may be repeated")
      ->allow_extra_args(false);
}

CLI::Option* add_overwrite(CLI::App& command, TrainOptions& options) {
  return command.add_flag("--overwrite", options.overwrite, "Replace an earlier run of the same name");
}

void add_train(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("train", "Train a language model from its initialization, measured at every step");
  auto options = std::make_shared<TrainOptions>();
  command->add_option("config", options->config, "TOML file with the run's keys")->required();
  add_set(*command, *options);
  add_overwrite(*command, *options);
  command->add_flag(
      "--check-nan", options->check_nan,
      "Look through the inputs and outputs of every operation; stop at the first NaN or infinity, by name");
  command->callback([options, &status] { status = train(*options); });
}

void add_resume(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("resume", "Go on with a run from its last checkpoint, to the bit");
  auto options = std::make_shared<ResumeOptions>();
  command->add_option("run", options->run, "The run's folder")->required();
  command
      ->add_option("--set", options->set, "A key in place of config.toml's, such as train.steps=200; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--from", options->from, "Step of an earlier checkpoint; later ones are set aside");
  command->add_flag("--inexact", options->inexact,
                    "Also where machine, build or number of threads are others, and so the bits");
  command->add_flag("--check-nan", options->check_nan, "As of train");
  command->callback([options, &status] { status = resume(*options); });
}

void add_branch(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("branch", "Begin a new run from another's checkpoint, with its optimizer");
  auto options = std::make_shared<BranchOptions>();
  command->add_option("run", options->run, "The folder of the run to begin from; it is only read")->required();
  command->add_option("--step", options->step, "Step of a checkpoint that is resumable")->required();
  command->add_option("--name", options->name, "Name of the new run")->required();
  command
      ->add_option("--set", options->set, "A key in place of the parent's, such as optimizer.lr=1e-4; may be repeated")
      ->allow_extra_args(false);
  command->callback([options, &status] { status = branch(*options); });
}

void add_replay(CLI::App& app) {
  auto* command = app.add_subcommand("replay", "Repeat recorded steps with other probes and add their records");
  auto options = std::make_shared<ReplayOptions>();
  command->add_option("run", options->run, "The run's folder")->required();
  command->add_option("--from", options->from, "First step whose records are added")->required();
  command->add_option("--to", options->to, "Last step whose records are added")->required();
  command->add_option(
      "--start", options->start,
      "Step of the checkpoint to start from, 0: the initialization; without it the last one that serves");
  command->add_option("--set", options->set, "A probes.* key in place of the recorded one; may be repeated")
      ->allow_extra_args(false);
  command->callback([options] { replay(*options); });
}

void add_generate(CLI::App& app) {
  auto* command = app.add_subcommand("generate", "Continue a text with a trained model");
  auto options = std::make_shared<GenerateOptions>();
  command->add_option("path", options->path, "A run's folder (its last checkpoint) or a checkpoint's")->required();
  command->add_option("--prompt", options->prompt, "Text to continue")->capture_default_str();
  command->add_option("--tokens", options->tokens, "Tokens to add")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_option("--temperature", options->temperature, "Of the softmax; 0 takes the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top-k", options->top_k, "Draw among the k likeliest tokens; 0: all")
      ->check(CLI::Range(std::int64_t{0}, kNoLimit))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the draws")
      ->check(CLI::Range(std::int64_t{0}, kNoLimit))
      ->capture_default_str();
  command->callback([options] { generate(*options); });
}

void add_probe_set(CLI::App& corpus) {
  auto* command = corpus.add_subcommand("probe-set", "Choose held-out sequences that all runs are compared on");
  auto options = std::make_shared<ProbeSetOptions>();
  command->add_option("data", options->data, "PREFIX of a token file")->required();
  command->add_option("--out", options->out, "PREFIX of PREFIX.bin, PREFIX.idx and PREFIX.json")->required();
  command->add_option("--tokens", options->tokens, "In all, cut down to whole sequences")
      ->check(CLI::Range(std::int64_t{1}, kNoLimit))
      ->capture_default_str();
  command->add_option("--sequence", options->sequence, "Tokens in a sequence, as data.sequence of the runs")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->capture_default_str();
  command->add_option("--heldout", options->heldout, "Share of the documents, as data.heldout of the runs")
      ->capture_default_str();
  command
      ->add_option("--edges", options->edges,
                   "First ranks of the bands, separated by commas; without it 1,10,100,1000,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--special", options->special, "Ids without a rank, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--seed", options->seed, "Of the order that decides between equals and fills up")
      ->check(CLI::Range(std::int64_t{0}, kNoLimit))
      ->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Replace an earlier probe set");
  command->callback([options] { corpus_probe_set(*options); });
}

void add_corpus(CLI::App& app) {
  auto* corpus = app.add_subcommand("corpus", "From text to tokens");
  corpus->require_subcommand(1);
  const auto separator = [](CLI::App* command, std::string& value) {
    command->add_option("--separator", value, "What ends a document")
        ->check(CLI::IsMember({"blank-line", "line", "file"}))
        ->capture_default_str();
  };

  auto* train = corpus->add_subcommand("train-tokenizer", "Fit a SentencePiece tokenizer to a text");
  auto fit = std::make_shared<TrainTokenizerOptions>();
  train->add_option("text", fit->text, "UTF-8 text")->required();
  train->add_option("--out", fit->model, "Model to write, customarily NAME.model")->required();
  train->add_option("--vocab", fit->tokenizer.vocab_size, "Pieces")->capture_default_str();
  train->add_option("--algorithm", fit->tokenizer.algorithm, "How pieces are chosen")
      ->check(CLI::IsMember({"unigram", "bpe"}))
      ->capture_default_str();
  train
      ->add_option("--coverage", fit->tokenizer.character_coverage,
                   "Share of the characters with a piece of their own; others are spelled in bytes")
      ->check(CLI::Range(0.98, 1.0))
      ->capture_default_str();
  separator(train, fit->separator);
  train->callback([fit] { corpus_train_tokenizer(*fit); });

  auto* tokenize = corpus->add_subcommand("tokenize", "Write a text as a token file (Megatron's .bin and .idx)");
  auto apply = std::make_shared<TokenizeOptions>();
  tokenize->add_option("text", apply->text, "UTF-8 text")->required();
  tokenize->add_option("--tokenizer", apply->tokenizer, "SentencePiece model")->required();
  tokenize->add_option("--out", apply->out, "PREFIX of PREFIX.bin and PREFIX.idx")->required();
  tokenize->add_flag("--append-eos", apply->append_eos, "End each document with the tokenizer's end-of-sequence token");
  separator(tokenize, apply->separator);
  tokenize->callback([apply] { corpus_tokenize(*apply); });
  add_probe_set(*corpus);
}

void add_measure(CLI::App& app) {
  auto* command = app.add_subcommand("measure", "Measure stored activations and gradients");
  auto options = std::make_shared<MeasureOptions>();
  command
      ->add_option(
          "file", options->file,
          "safetensors: h:TAP and g:TAP [N, d]; token, sequence, target [N]; counts [V]; special; basis:NAME:TAP "
          "[d, r]")
      ->required();
  command->add_option("--probe", options->probe, "moments, tangent or gradient_energy")->required();
  command->add_option("--set", options->set, "A choice such as rank=8; may be repeated")->allow_extra_args(false);
  command->add_option("--json", options->json, "Write the records here, as an array; else a table is printed");
  command->callback([options] { measure_file(*options); });
}

void add_config(CLI::App& app) {
  auto* command = app.add_subcommand("config", "What a configuration can hold; with --check, what a run would need");
  auto key = std::make_shared<std::string>();
  auto options = std::make_shared<TrainOptions>();
  auto check = std::make_shared<bool>(false);
  auto* explain = command->add_option("--explain", *key,
                                      "A key such as train.steps, or a table such as train; without it all of them");
  auto* file = command->add_option("config", options->config, "TOML file with a run's keys, for --check");
  auto* flag = command->add_flag("--check", *check,
                                 "Check the file as train does before it starts; print memory, disk and time it needs");
  add_set(*command, *options)->needs(flag);
  add_overwrite(*command, *options)->needs(flag);
  file->needs(flag);
  flag->needs(file)->excludes(explain);
  command->callback([key, options, check] { *check ? check_config(*options) : explain_config(*key); });
}

void add_info(CLI::App& app) {
  auto* command = app.add_subcommand("info", "This program and machine; with a path, the run or checkpoint there");
  auto path = std::make_shared<std::string>();
  command->add_option("path", *path, "A run's or a checkpoint's folder");
  command->callback([path] { print_info(*path); });
}

// One line, as for every other error: the command that was being read, what is wrong, where to look.
int refuse(const CLI::App& app, const CLI::ParseError& error) {
  std::string name = "nascent";
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  std::vector<std::string> commands;
  for (const CLI::App* c : at->get_subcommands([](const CLI::App*) { return true; })) commands.push_back(c->get_name());
  const std::vector<std::string> rest = at->remaining();
  if (commands.empty()) {
    fmt::print(stderr, "{}: {}; see {} --help\n", name, error.what(), name);
  } else {
    const std::string what = rest.empty() ? "a command is missing" : fmt::format("unknown command {}", rest.front());
    fmt::print(stderr, "{}: {}, expected one of: {}; see {} --help\n", name, what, fmt::join(commands, ", "), name);
  }
  return 2;
}

int run(int argc, char** argv) {
  CLI::App app(
      "nascent: trains small language models and measures the geometry of activations and gradients inside every step");
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  int status = 0;
  add_train(app, status);
  add_resume(app, status);
  add_branch(app, status);
  add_replay(app);
  add_generate(app);
  add_corpus(app);
  add_measure(app);
  add_config(app);
  add_info(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return e.get_exit_code() == 0 ? app.exit(e) : refuse(app, e);  // --help and --version come here too
  } catch (const Error& e) {
    std::fprintf(stderr, "nascent: %s\n", e.what());
    return e.exit_code();
  } catch (const std::filesystem::filesystem_error& e) {
    fmt::print(stderr, "nascent: {}: {}\n", e.path1().string(), e.code().message());
    return 2;
  } catch (const std::bad_alloc&) {
    std::fputs("nascent: out of memory\n", stderr);
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "nascent: %s\n", e.what());
    return 1;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  // A full disk or a closed pipe is an error to report, not a signal to die of.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);

  const int status = run(argc, argv);
  std::cout.flush();
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
  std::fputs("nascent: cannot write all of the output\n", stderr);
  return status == 0 ? 1 : status;
}
