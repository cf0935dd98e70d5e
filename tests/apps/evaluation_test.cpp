// SPDX-License-Identifier: Apache-2.0
// Scores of whole cases, and how they are written (features 112, 113, 115).
#include "apps/unet3d/evaluation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/unet3d/trivial.hpp"
#include "comm/communicator.hpp"
#include "data/netcdf.hpp"
#include "data/synthetic.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::unet3d {
namespace {

using data::test::message_of;
using data::test::read_file;
using data::test::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Twelve cases, a network that has learned nothing, and the ranks.
class EvaluationTest : public ::testing::Test {
 protected:
  EvaluationTest() : ranks_(make_self_communicator()) {
    options_.n_layouts = 6;
    options_.angles = {0, 30};
    options_.grid = {12, 10, 6};
    data::write_synthetic_wind(folder_.path(), options_);
    trained_.config.model = {.base = 4, .levels = 1};
    trained_.config.data.root = folder_.path();
    trained_.config.data.shape = {6, 6, 4};
    trained_.config.split.validation = 0.2;
    trained_.config.split.test = 0.5;
    trained_.model = make_model(trained_.config, 1);
    trained_.arena = std::make_unique<nn::ParameterArena>(*trained_.model, DType::f32);
    nn::initialise(*trained_.model, 3);
  }
  /// After options_ and the configuration have been settled.
  Evaluation run() {
    cases_.emplace(trained_.config.data, trained_.config.split, *ranks_);
    cases_->fit(*ranks_);
    trained_.normaliser = cases_->all().normaliser();
    return evaluate(
        trained_,
        {.cases = &*cases_, .part = &cases_->test(), .config = &field_, .hit_threshold = 0.5},
        *ranks_);
  }

  TempFolder folder_;
  data::SyntheticWindOptions options_;
  std::unique_ptr<Collective> ranks_;
  TrainedModel trained_;
  FieldConfig field_;
  std::optional<Cases> cases_;
};

const Score& row(const Evaluation& e, const std::string& name, const std::string& predictor,
                 const std::string& region) {
  for (const Score& s : e.scores)
    if (s.case_name == name && s.predictor == predictor && s.region == region) return s;
  throw Error("no such row: " + name + " " + predictor + " " + region);
}

// The network's rows against errors counted by hand from the truth in the files.
TEST_F(EvaluationTest, ScoresAreThoseOfTheWindowsFieldInMetresAndInSigmas) {
  const Evaluation e = run();
  ASSERT_EQ(e.names.size(), 6u);
  EXPECT_EQ(e.scores.size(), 7u * 4 * 3);
  EXPECT_THAT(e.windows, HasSubstr("windows of 6x6x4"));
  double abs_sum = 0, square_sum = 0, cells = 0, largest = 0;
  for (size_t i = 0; i < e.names.size(); ++i) {
    const int64_t index = index_among_all(cases_->test(), static_cast<int64_t>(i));
    const ScoredField scored = score_field(
        trained_, {.cases = &*cases_, .part = &cases_->test(), .config = &field_}, index, [] {});
    const data::Volume truth = cases_->all().read_wind(index);
    double abs_case = 0, n = 0, hits = 0;
    ASSERT_EQ(scored.field.shape(), Shape({12, 10, 4}));
    for (int64_t c = 0; c < scored.field.numel(); ++c) {
      if (!scored.sample.region.data<uint8_t>()[c]) continue;
      const float t = truth.values.data<float>()[c / 4 * 6 + c % 4];  // the lowest levels
      const double d = std::abs(double{scored.field.data<float>()[c]} - double{t});
      abs_case += d, n += 1, hits += d <= 0.5;
      square_sum += d * d;
      largest = std::max(largest, d);
    }
    abs_sum += abs_case, cells += n;
    const Score& s = row(e, e.names[i], "unet3d", "all");
    EXPECT_EQ(s.sums.count, n);
    // The truth goes through normalisation and back: 2^-23 of some m/s a cell.
    EXPECT_NEAR(s.sums.mae(), abs_case / n, 1e-5);
    EXPECT_NEAR(s.sums.hit_rate(), hits / n, 2 / n);
    EXPECT_GT(e.seconds[i], 0);
  }
  const Score& pooled = row(e, "pooled", "unet3d", "all");
  const double sigma = trained_.normaliser.scaling().sigma;
  EXPECT_NEAR(pooled.sums.mae(), abs_sum / cells, 1e-5);
  EXPECT_NEAR(pooled.sums.rmse(), std::sqrt(square_sum / cells), 1e-5);
  EXPECT_NEAR(pooled.sums.max_abs, largest, 1e-5);
  EXPECT_NEAR(pooled.mae_normalised(), abs_sum / cells / sigma, 1e-5);
  EXPECT_NEAR(pooled.rmse_normalised(), std::sqrt(square_sum / cells) / sigma, 1e-5);
  EXPECT_NEAR(pooled.max_normalised, largest / sigma, 1e-5);
}

TEST(Score, NormalisedErrorsOfCasesWithTheirOwnSigmasAreJoined) {
  const auto score = [](double count, double abs, double square, double max, double sigma) {
    Score s;
    s.sums.count = count, s.sums.abs = abs, s.sums.square = square, s.sums.max_abs = max;
    s.normalise(sigma);
    return s;
  };
  Score pooled;
  EXPECT_TRUE(std::isnan(pooled.mae_normalised()));
  EXPECT_TRUE(std::isnan(pooled.rmse_normalised()));
  pooled.add(score(10, 20, 80, 4, 2));
  pooled.add(score(30, 30, 90, 3, 0.5));
  EXPECT_DOUBLE_EQ(pooled.mae_normalised(), (20 / 2.0 + 30 / 0.5) / 40);
  EXPECT_DOUBLE_EQ(pooled.rmse_normalised(), std::sqrt((80 / 4.0 + 90 / 0.25) / 40));
  EXPECT_DOUBLE_EQ(pooled.max_normalised, 6);
  EXPECT_DOUBLE_EQ(pooled.sums.mae(), 50.0 / 40);
  pooled.add(score(1, NAN, NAN, NAN, 1));
  EXPECT_TRUE(std::isnan(pooled.max_normalised));
}

TEST_F(EvaluationTest, WindowsOfTheRunCentredAndWholeGridsCanBeScored) {
  const Score sliding = row(run(), "pooled", "unet3d", "all");
  field_.window = "whole";
  const Score whole = row(run(), "pooled", "unet3d", "all");
  field_.window = "centred";
  const Score centred = row(run(), "pooled", "unet3d", "all");
  EXPECT_EQ(sliding.sums.count, whole.sums.count);
  EXPECT_NE(sliding.sums.square, whole.sums.square);
  EXPECT_EQ(sliding.sums.target, whole.sums.target);
  EXPECT_LT(centred.sums.count, 6 * 6 * 6 * 4 + 1);
}

// Grids of one data set may differ: then no mean field can be had, but all else.
TEST_F(EvaluationTest, CasesOfDifferentShapesHaveNoMeanField) {
  const TempFolder other;
  data::SyntheticWindOptions wide = options_;
  wide.grid = {16, 10, 6};
  wide.n_layouts = 3;  // the same names, other grids
  data::write_synthetic_wind(folder_.path(), wide);
  const Evaluation e = run();
  EXPECT_EQ(e.scores.size(), 7u * 3 * 3);
  const Score& profile = row(e, "pooled", "mean_profile", "all");
  const Score& mean = row(e, "pooled", "domain_mean", "all");
  EXPECT_LT(profile.sums.square, mean.sums.square);
  EXPECT_THROW(row(e, "pooled", "mean_field", "all"), Error);
}

// HDF5 cases, whose axes have no names: a data set "z" tells the heights; without it no cell is
// low.
TEST_F(EvaluationTest, Hdf5CasesAreScoredWithAndWithoutHeights) {
  const Evaluation pairs = run();
  const data::WindConfig pairs_config = trained_.config.data;
  std::filesystem::create_directories(folder_.file("h5"));
  for (const bool with_z : {true, false}) {
    for (const data::WindCase& c : find_wind_files(pairs_config).cases) {
      data::hdf5::File out = data::hdf5::File::create(folder_.file("h5/" + c.name + ".h5"));
      const auto mask = data::NetcdfFile::open(c.mask_path);
      out.write_dataset("raw", mask.read("building_mask", {"x", "y", "z"}, {}));
      out.write_dataset(
          "label", data::NetcdfFile::open(c.wind_path).read("wind_speed", {"x", "y", "z"}, {}));
      const std::vector<double> z = mask.axis("z").centres;
      if (with_z) out.write_dataset("z", Tensor::from(Shape{6}, z));
      out.close();
    }
    data::WindFilesConfig& files = trained_.config.data.files;
    files.wind_folder = files.mask_folder = "h5";
    files.wind_suffix = files.mask_suffix = ".h5";
    files.mask_variable = "raw";
    files.wind_variable = "label";
    files.order = "xyz";
    ::testing::internal::CaptureStderr();
    const Evaluation e = run();
    const std::string told = ::testing::internal::GetCapturedStderr();
    ASSERT_EQ(e.scores.size(), pairs.scores.size());
    for (size_t i = 0; i < e.scores.size(); ++i) {
      const bool is_low = e.scores[i].region == "z<=20m";
      EXPECT_EQ(e.scores[i].sums.count, is_low && !with_z ? 0 : pairs.scores[i].sums.count);
      if (is_low && !with_z) continue;
      EXPECT_EQ(e.scores[i].sums.square, pairs.scores[i].sums.square);
    }
    if (with_z) {
      EXPECT_EQ(told.find("heights"), told.npos) << told;
    } else {
      EXPECT_THAT(told,
                  HasSubstr("6 of 6 cases do not tell the heights of their levels: they have "
                            "no cell in the region z<=20m. Wanted a coordinate 'z' in metres"));
    }
  }
  // Another number of heights than levels is a mistake.
  const std::string first = folder_.file("h5/" + cases_->test().name(0) + ".h5");
  {
    const data::hdf5::Lock lock;
    data::hdf5::File out = data::hdf5::File::create(first);
    out.write_dataset("raw", Tensor::full(Shape{12, 10, 6}, 1, DType::f32));
    out.write_dataset("label", Tensor::zeros(Shape{12, 10, 6}, DType::f32));
    out.write_dataset("z", Tensor::zeros(Shape{5}, DType::f32));
    out.close();
  }
  EXPECT_THAT(message_of([&] { run(); }),
              HasSubstr("'" + first + "': 'z' has 5 heights, wanted one for each of the 6 levels"));
}

TEST(TrivialPredictors, OfLevelsAreTheProfileWhateverTheShape) {
  const Tensor target = Tensor::from<float>({2, 1, 2}, {1, 10, 3, 20});
  const Tensor open = Tensor::full({2, 1, 2}, 1, DType::u8);
  TrivialPredictors exact(Dims3{2, 1, 2}), any = TrivialPredictors::of_levels(2);
  exact.add(target, open);
  any.add(target, open);
  const std::vector<Tensor> e = exact.fields_of({2, 1, 2}), a = any.fields_of({1, 3, 2});
  ASSERT_EQ(e.size(), 3u);
  ASSERT_EQ(a.size(), 2u);
  EXPECT_THAT(a[0].to_vector<float>(), ElementsAre(8.5, 8.5, 8.5, 8.5, 8.5, 8.5));
  EXPECT_THAT(a[1].to_vector<float>(), ElementsAre(2, 15, 2, 15, 2, 15));
  EXPECT_EQ(e[1].to_vector<float>(), (std::vector<float>{2, 15, 2, 15}));
  EXPECT_THROW(exact.fields_of({1, 1, 2}), Error);
  EXPECT_THROW(any.fields_of({1, 1, 3}), Error);
  EXPECT_THROW(any.add(Tensor::zeros({1, 1, 3}, DType::f32), Tensor::zeros({1, 1, 3}, DType::u8)),
               Error);
}

// Each number of the CSV stands in the JSON, in the same row under the same name.
TEST_F(EvaluationTest, JsonHasTheNumbersOfTheCsv) {
  const Evaluation e = run();
  write_scores(folder_.file("e.csv"), e.scores);
  write_scores_json(folder_.file("e.json"), {{"checkpoint", "best.h5"}, {"updates", 7}}, e);
  std::istringstream csv(read_file(folder_.file("e.csv")));
  const std::string json = read_file(folder_.file("e.json"));
  std::vector<std::string> rows;  // lines of the JSON that are rows
  std::istringstream lines(json);
  std::string line;
  while (std::getline(lines, line))
    if (line.starts_with("{\"case\":"))
      rows.push_back(line.ends_with(",") ? line.substr(0, line.size() - 1) : line);
  {
    std::ofstream out(folder_.file("rows.jsonl"));
    for (const std::string& r : rows) out << r << '\n';
  }
  const auto records = data::read_json_lines(folder_.file("rows.jsonl"));
  ASSERT_EQ(records.size(), e.scores.size());
  const auto cells = [](const std::string& text) {
    std::vector<std::string> out;
    std::istringstream in(text);
    for (std::string cell; std::getline(in, cell, ',');) out.push_back(cell);
    return out;
  };
  std::getline(csv, line);
  const std::vector<std::string> columns = cells(line);
  EXPECT_EQ(columns.size(), 15u);
  for (const data::JsonRecord& record : records) {
    ASSERT_TRUE(std::getline(csv, line));
    const std::vector<std::string> values = cells(line);
    ASSERT_EQ(record.size(), columns.size());
    for (size_t c = 0; c < columns.size(); ++c) {
      EXPECT_EQ(record[c].first, columns[c]);
      const auto& v = record[c].second.get();
      if (const auto* text = std::get_if<std::string>(&v)) {
        EXPECT_EQ(*text, values[c]);
      } else if (const auto* n = std::get_if<int64_t>(&v)) {
        EXPECT_EQ(static_cast<double>(*n), std::stod(values[c]));
      } else {
        EXPECT_EQ(std::get<double>(v), std::stod(values[c])) << columns[c];
      }
    }
  }
  EXPECT_THAT(json, HasSubstr("\"settings\": {\"checkpoint\":\"best.h5\",\"updates\":7}"));
  EXPECT_THAT(json, HasSubstr("\"units\": {\"cells\":\"1\",\"mae\":\"m/s\""));
  EXPECT_THAT(json.substr(json.rfind("\"wall_s\"")), HasSubstr("\"" + e.names[0] + "\":"));
}

TEST(TellingCases, AreTheBestTheMedianAndTheWorst) {
  Evaluation e;
  for (const double error : {3.0, std::nan(""), 1.0, 2.0, 9.0}) {
    e.names.push_back("c" + std::to_string(e.names.size()));
    Score s{.case_name = e.names.back(), .predictor = "unet3d", .region = "all", .sums = {}};
    s.sums.count = 1, s.sums.square = error * error, s.sums.target_square = 1;
    e.scores.push_back(s);
  }
  using P = std::pair<std::string, int64_t>;
  EXPECT_THAT(telling_cases(e), ElementsAre(P{"best", 2}, P{"median", 0}, P{"worst", 4}));
  e.names.resize(3);
  e.scores.resize(3);
  EXPECT_THAT(telling_cases(e), ElementsAre(P{"best", 2}, P{"worst", 0}));
  e.names.resize(2);
  e.scores.resize(2);
  EXPECT_THAT(telling_cases(e), ElementsAre(P{"best", 0}));
}

}  // namespace
}  // namespace bora::unet3d
