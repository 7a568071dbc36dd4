module tools/volcano

go 1.26.0

require volcano.sh/volcano v1.10.0
