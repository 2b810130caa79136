// Package recipetest tests the recipes on a backend: what users are promised of a lock,
// with the faults under which it must hold. It takes the same harness as
// session/driver/drivertest, which checks the backend's contract below it. A third backend is
// a new folder and these two calls.
//
// Tests on real servers use its Client and Request too.
package recipetest
