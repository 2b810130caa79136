module github.com/fairlock/fairlock/adapters/migrate

go 1.26.0

require (
	github.com/fairlock/fairlock v0.1.0
	github.com/golang-migrate/migrate/v4 v4.19.1
	github.com/stretchr/testify v1.11.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc // indirect
	github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2 // indirect
	golang.org/x/sys v0.38.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
