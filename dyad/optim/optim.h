#pragma once

/// Optimizers, learning rates over time, clipping of gradients.
#include "dyad/optim/clip.h"
#include "dyad/optim/optimizer.h"
#include "dyad/optim/schedule.h"
