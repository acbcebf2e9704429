package stage

import (
	"errors"

	"github.com/cnibake/cnibake/builder/payload"
)

// Expectation is what Verify would hold a bin directory to.
type Expectation struct {
	Pin     string
	Plugins []payload.Plugin
	// Baked is the manifest beside the files, the zero Manifest where there is none: it decides too
	// about what is right.
	Baked payload.Manifest
}

// Expect says what Verify would look at, without looking at a plugin.
func Expect(o VerifyOptions) (*Expectation, error) {
	dst, err := o.system.openDirectory(o.Dest)
	if err != nil {
		return nil, errors.New(sentence(err))
	}
	defer dst.close()

	src, err := o.expected(dst)
	if err != nil {
		return nil, err
	}
	defer src.dir.close()

	e := &Expectation{Pin: src.manifest.Pin.Version, Plugins: o.wanted(src, payload.Manifest{})}
	e.Baked, _ = payload.ReadManifest(dst.join(payload.ManifestName))

	return e, nil
}
