package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	token = "cnibake"

	// patience is generous, because the machine is emulated and others may run beside it.
	patience = 10 * time.Second
	// silence is how long nothing must get through, where nothing may.
	silence = 3 * time.Second
)

// talk sends a token from one namespace to an address in another and wants it back. local, unless
// empty, is the address to send from.
func talk(from *namespace, local string, to *namespace, listen, dial string, wait time.Duration) error {
	var listener net.Listener

	if err := to.do(func() (err error) {
		listener, err = net.Listen("tcp4", listen)

		return err
	}); err != nil {
		return fmt.Errorf("listening on %s: %w", listen, err)
	}
	defer listener.Close()

	go echo(listener)

	return from.do(func() error {
		dialer := net.Dialer{Timeout: wait}
		if local != "" {
			dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(local)}
		}

		conn, err := dialer.Dial("tcp4", dial)
		if err != nil {
			return err
		}
		defer conn.Close()

		return ask(conn, wait)
	})
}

// silent wants the same to lead to nothing.
func silent(from *namespace, local string, to *namespace, listen, dial string) error {
	err := talk(from, local, to, listen, dial, silence)

	var timeout net.Error

	switch {
	case err == nil:
		return fmt.Errorf("%s was reached, which must not happen", dial)
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil
	default:
		return fmt.Errorf("reaching %s: %w; want silence", dial, err)
	}
}

func echo(listener net.Listener) {
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()

	_, _ = io.CopyN(conn, conn, int64(len(token)))
}

func ask(conn net.Conn, wait time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}

	if _, err := io.WriteString(conn, token); err != nil {
		return err
	}

	answer := make([]byte, len(token))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}

	if string(answer) != token {
		return fmt.Errorf("answer %q, want %q", answer, token)
	}

	return nil
}
