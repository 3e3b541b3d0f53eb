#pragma once

#include <initializer_list>

namespace dyad {

/// What e^x is computed from in every place that computes it: x = n ln 2 + r, and
/// e^r = 1 + r + r^2 (tail[0] + r tail[1] + ...) for |r| up to ln(2) / 2.
template <class T>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  static constexpr double kLog2E = 0x1.71547652b82fep0;
  static constexpr double kLn2High = 0x1.62e4p-1, kLn2Low = 0x1.7f7d1cp-20;  ///< of its bits
  static constexpr std::initializer_list<double> kTail = {0x1p-1, 0x1.5554b8p-3, 0x1.5555bap-5,
                                                          0x1.12237p-7, 0x1.6c5568p-10};
};
template <>
struct ExpConstants<double> {
  static constexpr double kLog2E = 0x1.71547652b82fep0;
  static constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
  static constexpr std::initializer_list<double> kTail = {0x1p-1,
                                                          0x1.5555555555557p-3,
                                                          0x1.5555555555552p-5,
                                                          0x1.1111111110056p-7,
                                                          0x1.6c16c16c18932p-10,
                                                          0x1.a01a01ac1a7cdp-13,
                                                          0x1.a01a0197bc746p-16,
                                                          0x1.71de01b8495c5p-19,
                                                          0x1.27e500e20f753p-22,
                                                          0x1.af4eb35b74ab1p-26,
                                                          0x1.1f32e86a4932bp-29};
};

}  // namespace dyad
