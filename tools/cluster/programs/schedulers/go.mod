module tools/schedulers

go 1.26.0

require (
	sigs.k8s.io/scheduler-plugins v0.33.5
	volcano.sh/volcano v1.10.0
)
