#include "dyad/ir/size_facts.h"

#include <utility>

namespace dyad {
namespace {

thread_local const SizeFacts* current_facts = nullptr;

}  // namespace

const SizeFacts* SizeFacts::current() noexcept { return current_facts; }

SizeFacts::Scope::Scope(const SizeFacts& facts) noexcept
    : previous_(std::exchange(current_facts, &facts)) {}

SizeFacts::Scope::~Scope() { current_facts = previous_; }

}  // namespace dyad
