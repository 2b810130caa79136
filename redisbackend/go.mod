module github.com/fairlock/fairlock/redisbackend

go 1.26.0

require (
	github.com/fairlock/fairlock v0.1.0
	github.com/redis/rueidis v1.0.79
	github.com/stretchr/testify v1.11.1
	go.uber.org/goleak v1.3.0
)
