// Package recipetest tests the recipes on a backend: the promises to users of a lock, under
// faults. It takes the same harness as session/driver/drivertest, which checks the
// backend's contract below. The tests of a new backend are a harness and these two calls.
//
// Tests on real servers use its Client and Request too.
package recipetest
