package attest

import (
	"errors"
	"fmt"

	"github.com/cnibake/cnibake/builder/oci"
)

// RefusedError is the answer no: something is not signed, not attested, or not what was signed. Any
// other error means that it could not be found out.
type RefusedError struct{ Reason error }

func (e RefusedError) Error() string { return e.Reason.Error() }
func (e RefusedError) Unwrap() error { return e.Reason }

// refuse says no.
func refuse(format string, args ...any) error {
	return RefusedError{fmt.Errorf(format, args...)}
}

// IsRefusal reports whether an error is, or wraps, the answer no. Bytes that are not those of their
// digest are one.
func IsRefusal(err error) bool {
	var refused RefusedError

	return errors.As(err, &refused) || oci.IsAltered(err)
}
