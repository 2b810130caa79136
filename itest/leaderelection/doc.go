// Package leaderelection tests the adapter for client-go and controller-runtime with candidates that
// are processes of their own, on each service.
package leaderelection
