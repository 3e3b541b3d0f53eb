#pragma once

/// Every operator.
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attention.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/conv.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/custom.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/embedding.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/loss.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/random.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/views.h"
