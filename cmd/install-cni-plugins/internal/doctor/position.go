package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// offsetOf returns where in the data a decoder met an error; false where the error does not say.
func offsetOf(err error, size int) (int, bool) {
	var (
		syntax *json.SyntaxError
		typed  *json.UnmarshalTypeError
	)

	switch {
	case errors.As(err, &syntax):
		return int(syntax.Offset), true
	case errors.As(err, &typed):
		return int(typed.Offset), true
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return size, true
	case errors.Is(err, errNoObject), errors.Is(err, errNoList):
		return 1, true
	default:
		return 0, false
	}
}

// position returns ":line:column" of where a decoder that began at start met an error, both counted
// from 1; empty where the error does not say. Offsets count the byte that was wrong as read.
func position(data []byte, start int, err error) string {
	offset, ok := offsetOf(err, len(data)-start)
	if !ok {
		return ""
	}

	before := data[:min(max(start+offset-1, 0), len(data))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len([]rune(string(before[bytes.LastIndexByte(before, '\n')+1:]))) + 1

	return fmt.Sprintf(":%d:%d", line, column)
}

// jsonError says in a few words what is wrong with JSON.
func jsonError(err error) string {
	var typed *json.UnmarshalTypeError

	switch {
	case errors.As(err, &typed) && typed.Field != "":
		field := typed.Field[strings.LastIndex(typed.Field, ".")+1:]

		return fmt.Sprintf("%q is a %s, which it must not be", strings.ToLower(field[:1])+field[1:], typed.Value)
	case errors.As(err, &typed):
		return fmt.Sprintf("it is a %s, not an object", typed.Value)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "it ends in the middle"
	default:
		return err.Error()
	}
}

// isSyntax reports whether the text is no JSON at all.
func isSyntax(err error) bool {
	var syntax *json.SyntaxError

	return errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// withoutPosition drops where in a text made by us a decoder met an error: nobody has that text.
func withoutPosition(err error) error {
	if _, ok := offsetOf(err, 0); ok {
		return errors.New(jsonError(err))
	}

	return err
}
