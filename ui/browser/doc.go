// Package browser tests the page of package ui in a real browser: Debian's chromium, driven
// by its DevTools. It is a module of its own, so that the library does not depend on what
// drives browsers.
//
// The tests need the program chromium in PATH, or its path in CHROMIUM.
package browser
