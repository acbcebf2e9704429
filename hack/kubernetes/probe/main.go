// Command probe is what runs in the pods of these tests.
//
//	probe              print the network interfaces, one a line with their addresses, and "ready"; serve the same
//	probe pause        do nothing, as a pause container
//	probe ask ADDRESS  print what the probe at an address serves
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const port = "8080"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)

	switch {
	case len(args) == 2 && args[0] == "ask":
		return ask(args[1])
	case len(args) == 1 && args[0] == "pause":
	case len(args) == 0:
		if err := serve(); err != nil {
			return err
		}
	default:
		return errors.New("usage: probe [pause | ask ADDRESS]")
	}

	<-end

	return nil
}

func serve() error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}

	var text strings.Builder

	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			return err
		}

		fmt.Fprintln(&text, "interface", i.Name, addresses)
	}

	text.WriteString("ready\n")

	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}

	fmt.Print(text.String())

	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}

			_, _ = io.WriteString(connection, text.String())
			connection.Close()
		}
	}()

	return nil
}

func ask(address string) error {
	connection, err := net.DialTimeout("tcp", net.JoinHostPort(address, port), 10*time.Second)
	if err != nil {
		return err
	}
	defer connection.Close()

	_, err = io.Copy(os.Stdout, connection)

	return err
}
