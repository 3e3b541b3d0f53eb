#pragma once

/// Layers and what models made of them can do.
#include "dyad/nn/activation.h"
#include "dyad/nn/attention.h"
#include "dyad/nn/conv.h"
#include "dyad/nn/conv_axes.h"
#include "dyad/nn/embedding.h"
#include "dyad/nn/init.h"
#include "dyad/nn/linear.h"
#include "dyad/nn/loss.h"
#include "dyad/nn/module.h"
#include "dyad/nn/norm.h"
#include "dyad/nn/norm_groups.h"
#include "dyad/nn/pooling.h"
#include "dyad/nn/recurrent.h"
#include "dyad/nn/rnn.h"
#include "dyad/nn/sequential.h"
#include "dyad/nn/transformer.h"
