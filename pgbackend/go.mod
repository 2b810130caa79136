module github.com/fairlock/fairlock/pgbackend

go 1.26.0

require (
	github.com/fairlock/fairlock v0.1.0
	github.com/jackc/pgx/v5 v5.12.0
)
