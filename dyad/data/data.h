#pragma once

/// Readers of data files, datasets and the loader.
#include "dyad/data/csv.h"
#include "dyad/data/data_loader.h"
#include "dyad/data/digits.h"
#include "dyad/data/idx.h"
#include "dyad/data/npy.h"
