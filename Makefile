# Every target is one line into the command line of this repository; `make` alone lists them.
# PYTHON is any Python >= 3.11; the packages are installed beside it, in ~/.cache/effectively-once (or EFFECTIVELY_ONCE_CACHE).
PYTHON ?= python3
CLI = $(PYTHON) -m infra.bootstrap
option = $(if $($(2)),--$(1) "$($(2))")
VERDICT = runs/.verdict-$$PPID

# make itself knows no exit code but 0 and 2. In question mode it knows 1 as well, and `check` has three answers.
ifeq ($(MAKECMDGOALS),check)
MAKEFLAGS += -q
endif

.DEFAULT_GOAL := help
.PHONY: help doctor demo chaos soak compare two-ways reconcile check judge report evidence new-pipeline run up env status open logs bundle acceptance drill down tools images sbom schema lint docs test planted fuzz mutants tampered bench test-core test-all lock

##@ Prove it
doctor: ## is this machine able to run it?
	@$(CLI) doctor
demo: ## broker, object store and Spark here, executors and more killed, a verdict [SEED= JOB=user_counts|card_ledger|fraud INPUT= KEY= TIME= ARGS=]
	@$(CLI) demo $(call option,seed,SEED) $(call option,job,JOB) $(call option,input,INPUT) $(call option,key,KEY) $(call option,time,TIME) $(ARGS)
chaos: ## every role struck or stalled, drivers and servers too; a verdict [ON=embedded|cluster SEED= FAULTS= RECORDS= ARGS=; of yours: AT= JOB= INPUT= KEY= TIME=]
	@$(CLI) chaos $(call option,on,ON) $(call option,seed,SEED) $(call option,faults,FAULTS) $(call option,records,RECORDS) $(call option,at,AT) $(call option,job,JOB) $(call option,input,INPUT) $(call option,key,KEY) $(call option,time,TIME) $(ARGS)
soak: ## hours of it in parts; goes on after an interrupt [PLAN=file | HOURS=1 SEED=; ON= AT=folder ARGS=]
	@$(CLI) soak $(call option,plan,PLAN) $(call option,hours,HOURS) $(call option,seed,SEED) $(call option,on,ON) $(call option,at,AT) $(ARGS)
compare: ## one job under four semantics, same records and kills: errors, latency, cost [SEED= RATE=0.02 ARGS="--kills 3"]
	@$(CLI) compare $(call option,seed,SEED) $(call option,rate,RATE) $(ARGS)
two-ways: ## snapshots against dedup per operator, 2, 4 and 8 operators under kills: exactness, cost [SEED= ARGS="--operators 2 4"]
	@$(CLI) two-ways $(call option,seed,SEED) $(ARGS)
reconcile: ## a batch run of the same code over the topic: what each stream has too many or too few, window by window [SEED= ARGS=]
	@$(CLI) reconcile $(call option,seed,SEED) $(ARGS)
check: judge ## judge a run again from its files: exit 0 pass, 1 fail, 2 unknown [RUN=runs/latest OUT=folder]
	$(if $(filter 1,$(shell cat $(VERDICT); rm -f $(VERDICT))),false)
judge:
	+@mkdir -p runs; $(CLI) check $(call option,run,RUN) $(call option,out,OUT) $(ARGS); code=$$?; test $$code -le 1 || exit 2; echo $$code > $(VERDICT)

report: ## a run's page; without RUN the index of all [RUN= ARGS="campaign runs/a runs/b"]
	@$(CLI) report $(if $(RUN),"$(RUN)",$(if $(ARGS),,index)) $(ARGS)
evidence: ## what the repository keeps of runs, or of a soak's sum [RUN="runs/a runs/b" AT=docs/evidence/NAME ARGS=]
	@$(CLI) report evidence $(strip $(RUN)) --to "$(AT)" $(ARGS)

##@ Your own pipeline
new-pipeline: ## a folder with a pipeline of your own, and its tests [NAME= AT=folder]
	@$(CLI) new-pipeline --name "$(NAME)" $(call option,at,AT)
run: ## it runs here: broker, object store and Spark, until Ctrl-C, then on where it was; FRESH=1 begins anew [AT=folder JOB=module:name FRESH=1]
	@$(CLI) run $(call option,at,AT) $(call option,job,JOB) $(if $(FRESH),--fresh)

##@ Prove it on Kubernetes
up: ## a cluster here with everything on it; builds what it cannot find [PROFILE=laptop|ci|chaos|brokers|ha MONITORING=1]
	@$(CLI) up $(call option,profile,PROFILE) $(if $(MONITORING),--monitoring)
acceptance: ## kill executor pods and more, judge the outputs; jobs: of the further jobs; alerts: each raised by its fault; upgrade: changed while it runs [SUITE=all|smoke|ha|jobs|alerts|upgrade JOB= SEED= FAULTS= QUIET=minutes CHANGES=]
	@$(CLI) acceptance $(call option,suite,SUITE) $(call option,job,JOB) $(call option,seed,SEED) $(call option,faults,FAULTS) $(call option,quiet,QUIET) $(call option,changes,CHANGES)
drill: ## bucket, topic, everything destroyed under load and restored: what is lost, in seconds and minutes [PARTS=bucket,topic,cluster ON=embedded|cluster SEED= ARGS=]
	@$(CLI) drill $(call option,on,ON) $(call option,parts,PARTS) $(call option,seed,SEED) $(ARGS)
down: ## remove all of it [FORGET=1 gives up a state that cannot be read]
	@$(CLI) down $(if $(FORGET),--forget)

##@ Operate it
env: ## eval "$$(make env)": plain kubectl and pulumi in this shell
	@$(CLI) env
status: ## each component: ready, or why not
	@$(CLI) status
open: ## addresses [FORWARD=1 holds port forwards]
	@$(CLI) open $(if $(FORWARD),--forward)
logs: ## of a pipeline, or a component [PIPELINE= COMPONENT=]
	@$(CLI) logs $(call option,pipeline,PIPELINE) $(call option,component,COMPONENT) $(ARGS)
bundle: ## events, objects and logs in one archive, without secrets
	@$(CLI) bundle

##@ Work on it
tools: ## find or build what deploys to a cluster of yours, nothing else [ALL=1 every tool]
	@$(CLI) tools $(if $(ALL),--all)
images: ## build the container images, one more for a wheel of yours, or for what watches [WHEEL= PUSH=registry/path/ ARCH= MONITORING=1]
	@$(CLI) images $(call option,wheel,WHEEL) $(call option,push,PUSH) $(call option,arch,ARCH) $(if $(MONITORING),--monitoring)
sbom: ## what is in the images, a CycloneDX file each below build/sbom; builds those that are not there [IMAGE= ARCH=]
	@$(CLI) sbom $(call option,image,IMAGE) $(call option,arch,ARCH)
schema: ## write what is made from the source: the charts' schemas, the page of refusals
	@$(CLI) schema
docs: ## the documentation as a site below build/site; links and form are checked [ARGS=--form]
	@$(CLI) report docs/evidence && $(CLI) docs $(ARGS)
lint: ## linters, types, layers
	@$(CLI) lint
test: ## without servers and Spark, but for a slice; with AT the tests of a pipeline of yours [ARGS=-k chain AT=folder]
	@$(CLI) test $(call option,at,AT) $(ARGS)
planted: ## bugs planted in a copy of the product, one at a time: each has to be caught; a matrix [ARGS="--only catalog"]
	@$(CLI) planted $(ARGS)
fuzz: ## any record, declaration and settings, through trials and all sinks: nothing stops, is lost or differs [RECORDS=100000 SEED= ON=memory|stack|all ARGS="--minutes 10"]
	@$(CLI) fuzz $(call option,records,RECORDS) $(call option,seed,SEED) $(call option,on,ON) $(ARGS)
mutants: ## mechanical mutants of the core: 90 % of each module have to be killed; a table [ARGS="--only catalog"]
	@$(CLI) mutants $(ARGS)
tampered: ## 10,000 alterations of a run's evidence, one at a time: the judge has to catch each; a matrix [ARGS="--only sent.jsonl"]
	@$(CLI) tampered $(ARGS)
bench: ## speed, as ratios of one run [CASE=quick|semantics|against|race|dedup|checkpoint|restart|state|held|lake|optimisations|flat|catalog ARGS=]
	@$(CLI) bench $(or $(CASE),quick) $(ARGS)
test-core: ## and what guards the protocol: servers, sinks, crash points; CI plays it
	@$(CLI) test --extent core $(ARGS)
test-all: ## and all else that needs no cluster, the slow suites too
	@$(CLI) test --extent all $(ARGS)
lock: ## write anew what pins packages and jars (requirements.lock, jars.lock); images get Debian's packages of today
	@$(CLI) lock

help:
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {gsub(/[$$][$$]/, "$$", $$2); printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
