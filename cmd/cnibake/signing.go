package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/oci"
)

// openSignable recognises a directory written by build, a layout, a file, or else an image in a registry.
func (a *app) openSignable(ctx context.Context, argument string, registry registryFlags) (builder.Signable, error) {
	info, err := os.Stat(argument)

	switch {
	case errors.Is(err, fs.ErrNotExist) && oci.LooksRemote(argument):
		return a.openRemote(ctx, argument, registry)
	case errors.Is(err, fs.ErrNotExist):
		return builder.Signable{}, fmt.Errorf("%s: no such file or directory, and not of the form REGISTRY/REPO:TAG", argument)
	case err != nil:
		return builder.Signable{}, err
	case info.IsDir() && builder.IsDist(argument):
		dist, err := builder.OpenDist(argument)

		return builder.Signable{Dist: dist}, err
	case info.IsDir():
		layout, err := oci.OpenLayout(argument)
		if err != nil {
			return builder.Signable{}, err
		}

		return builder.Signable{Store: layout}.InDist(argument)
	case info.Mode().IsRegular():
		return builder.Signable{File: argument}.InDist(argument)
	default:
		return builder.Signable{}, fmt.Errorf("%s is neither a file nor a directory", argument)
	}
}

// openRemote pins the reference to the digest that it has now, so that what is verified is what was
// looked at.
func (a *app) openRemote(ctx context.Context, argument string, registry registryFlags) (builder.Signable, error) {
	client, err := a.registryClient(registry)
	if err != nil {
		return builder.Signable{}, err
	}

	digest, err := client.Digest(ctx, argument)
	if err != nil {
		return builder.Signable{}, err
	}

	ref, err := name.ParseReference(argument)
	if err != nil {
		return builder.Signable{}, err
	}

	store, err := client.Repository(ref.Context().Digest(digest.String()).String())

	return builder.Signable{Store: store, Repository: ref.Context().Name()}, err
}

// refusal makes an error that says no exit 1.
func refusal(err error) error {
	if attest.IsRefusal(err) {
		return answerNo{err}
	}

	return err
}
