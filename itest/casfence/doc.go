// Package casfence runs the load of the packages below fence on object stores. The stores are
// libraries, because no package of Debian is one: gofakes3 honours If-Match and If-None-Match, and
// fake-gcs-server ifGenerationMatch. Both keep their objects in the memory of the test.
package casfence
