module github.com/cnibake/cnibake/hack/talos/archiver/v1.12

go 1.26.6

require github.com/siderolabs/talos v1.12.6

require (
	github.com/hashicorp/errwrap v1.1.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	github.com/pkg/xattr v0.4.12 // indirect
	golang.org/x/sys v0.42.0 // indirect
)
