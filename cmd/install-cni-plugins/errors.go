package main

import "fmt"

// usageError says that flags or environment mean nothing.
type usageError struct {
	error
}

func usagef(format string, a ...any) error {
	return &usageError{fmt.Errorf(format+`; "install-cni-plugins help" shows how it is used`, a...)}
}

// toleratedError reports failures that do not make the program fail.
type toleratedError struct {
	text string
}

func (e *toleratedError) Error() string { return e.text }

// answerNo reports that the answer is no.
type answerNo struct {
	text string
}

func (e *answerNo) Error() string { return e.text }

// note is something worth saying that is no failure.
type note struct {
	text string
}

func (e *note) Error() string { return e.text }
