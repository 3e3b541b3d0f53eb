#pragma once

/// Optimizers, learning rates over time, clipping of gradients, averages of weights.
#include "dyad/optim/adafactor.h"
#include "dyad/optim/adam.h"
#include "dyad/optim/adaptive.h"
#include "dyad/optim/average.h"
#include "dyad/optim/clip.h"
#include "dyad/optim/grad_scaler.h"
#include "dyad/optim/lbfgs.h"
#include "dyad/optim/optimizer.h"
#include "dyad/optim/schedule.h"
#include "dyad/optim/sgd.h"
