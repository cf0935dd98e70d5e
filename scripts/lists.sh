# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Values of options that take lists. Sourced; wants a function fail <text> that ends the script.

# list <values> <allowed as a regular expression>: the values, a line each, checked. One assignment a line, x=$(list ...): of several
# on one line only the last one's failure would end a script under set -e.
list() {
  local value
  for value in ${1//,/ }; do
    [[ $value =~ ^($2)$ ]] || fail "'$value' in '$1': wanted $2"
    echo "$value"
  done
}
# shellcheck disable=SC2034  # for those who source this
number='[1-9][0-9]*'
