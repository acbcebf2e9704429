package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Limits of what an input may hold, and what one object in it may. An object's commas bound what a
// decoder makes of it: two bytes of a list can become a hundred in memory.
const (
	maxInput       = 8 << 20
	maxAttachments = 10_000
	maxObject      = 2 << 20
	maxCommas      = 20_000
)

// Input is a text to take attachments from: Kubernetes objects as "kubectl get -o json" prints them,
// alone, one after another or in lists, or CNI configurations.
type Input struct {
	// Name is what messages call it.
	Name string
	Data io.Reader
}

// badInputError is a text that is not JSON, or not what it should be.
type badInputError struct{ where, what string }

func (e *badInputError) Error() string { return e.where + ": " + e.what }

// read adds what an input holds.
func (o *objects) read(in Input) error {
	data, err := io.ReadAll(io.LimitReader(in.Data, maxInput+1))

	switch {
	case err != nil:
		return fmt.Errorf("reading %s: %w", in.Name, err)
	case len(data) > maxInput:
		return fmt.Errorf("reading %s: more than %d bytes; ask for one namespace at a time", in.Name, maxInput)
	case len(bytes.TrimSpace(data)) == 0:
		return fmt.Errorf("reading %s: it is empty; give what \"kubectl get network-attachment-definitions -A -o json\" prints", in.Name)
	}

	s := &stream{json.NewDecoder(bytes.NewReader(data)), data}

	for {
		start := int(s.decoder.InputOffset())
		if len(bytes.TrimSpace(data[start:])) == 0 {
			return nil
		}

		err := s.value(func(raw []byte) error { return o.add(raw, in.Name) })
		if errors.Is(err, errTooMuch) {
			return fmt.Errorf("reading %s: %w", in.Name, err)
		}

		if err == nil {
			continue
		}

		// What is wrong with an object counts from where that begins. For the syntax, the decoder of
		// streams does not say where it stands.
		var inside *objectError
		if errors.As(err, &inside) {
			start = inside.start
		} else if syntax := json.Unmarshal(data[start:], new(extent)); syntax != nil {
			err = syntax
		}

		return &badInputError{in.Name + position(data, start, err), jsonError(err)}
	}
}

// errTooMuch says that an input is larger than anything real.
var errTooMuch = fmt.Errorf("more than %d attachments, or an object of more than %d bytes or %d values", maxAttachments, maxObject, maxCommas)

// objectError is about an object that begins somewhere in the text.
type objectError struct {
	start int
	err   error
}

func (e *objectError) Error() string { return e.err.Error() }
func (e *objectError) Unwrap() error { return e.err }

// stream reads values one after another without keeping them: what it hands on is part of the text.
type stream struct {
	decoder *json.Decoder
	data    []byte
}

// extent is the length of a value that is passed over.
type extent int

// UnmarshalJSON takes the length.
func (e *extent) UnmarshalJSON(value []byte) error {
	*e = extent(len(value))

	return nil
}

// skip passes over a value and returns it.
func (s *stream) skip() ([]byte, error) {
	var length extent

	if err := s.decoder.Decode(&length); err != nil {
		return nil, err
	}

	end := s.decoder.InputOffset()

	return s.data[end-int64(length) : end], nil
}

// value hands on the next value: an object, or each item of a list of objects.
func (s *stream) value(add func([]byte) error) error {
	token, err := s.decoder.Token()
	start := int(s.decoder.InputOffset()) - 1

	switch {
	case err != nil:
		return err
	case token != json.Delim('{'):
		return &objectError{start, errNoObject}
	}

	isList := false

	for s.decoder.More() {
		key, err := s.decoder.Token()
		if err != nil {
			return err
		}

		if key == "items" {
			isList = true
			err = s.items(add)
		} else {
			_, err = s.skip()
		}

		if err != nil {
			return err
		}
	}

	if _, err := s.decoder.Token(); err != nil || isList {
		return err
	}

	return s.add(s.data[start:s.decoder.InputOffset()], add)
}

var (
	errNoObject = errors.New("it is not an object")
	errNoList   = errors.New("\"items\" is not a list")
)

// items hands on the items of a list.
func (s *stream) items(add func([]byte) error) error {
	if token, err := s.decoder.Token(); err != nil {
		return err
	} else if token != json.Delim('[') {
		return &objectError{int(s.decoder.InputOffset()) - 1, errNoList}
	}

	for s.decoder.More() {
		raw, err := s.skip()
		if err == nil {
			err = s.add(raw, add)
		}

		if err != nil {
			return err
		}
	}

	_, err := s.decoder.Token()

	return err
}

// add hands on an object that is not larger than real ones.
func (s *stream) add(raw []byte, add func([]byte) error) error {
	if len(raw) > maxObject || bytes.Count(raw, []byte(",")) > maxCommas {
		return errTooMuch
	}

	err := add(raw)
	if err != nil && !errors.Is(err, errTooMuch) {
		return &objectError{int(s.decoder.InputOffset()) - len(raw), err}
	}

	return err
}
