module github.com/cnibake/cnibake

go 1.26.6

require (
	github.com/blang/semver/v4 v4.0.0
	gopkg.in/yaml.v3 v3.0.1
)

require golang.org/x/sys v0.50.0 // indirect
