// Package leaderelection tests the adapter for client-go and controller-runtime with candidates that
// are processes of their own, on PostgreSQL and on Redis.
package leaderelection
