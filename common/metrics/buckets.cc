#include "common/metrics/metric_table.h"

namespace baton {

std::vector<double> FirstTokenBuckets() {
  return {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
          1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
}

std::vector<double> InterTokenBuckets() {
  return {.0005, .001, .002, .004, .006, .008, .01, .025, .05, .075, .1, .15, .2,
          .3,    .4,   .5,   .75,  1,    2.5,  5,   7.5,  10,  20,   40, 80};
}

std::vector<double> RequestBuckets() {
  return {.005, .01, .025, .05, .1, .2, .3, .5,  .8,  1,   1.5, 2,    2.5, 5,
          10,   15,  20,   30,  40, 50, 60, 120, 240, 480, 960, 1920, 7680};
}

std::vector<double> IterationTokenBuckets() {
  return {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
}

std::vector<double> LengthBuckets() { return OneTwoFive(2'000'000); }

std::vector<double> ShortTimeBuckets() {
  return {.00001, .00005, .0001, .0005, .001, .0025, .005, .01, .025,
          .05,    .1,     .25,   .5,    1,    2.5,   5,    10,  30};
}

std::vector<double> ProbabilityBuckets() {
  return {1e-6, 1e-5, 1e-4, 1e-3, .003, .01, .03, .1, .2, .3, .5, .7, .9, .99, 1};
}

}  // namespace baton
