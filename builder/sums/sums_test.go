package sums_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder/sums"
)

var (
	zeros = strings.Repeat("0", 64)
	ones  = strings.Repeat("1", 64)
)

func TestParse(t *testing.T) {
	t.Parallel()

	got, err := sums.Parse([]byte(ones + "  talos/index.json\n" + zeros + "  a b.tar\n"))
	want := []sums.Sum{{Hex: ones, Name: "talos/index.json"}, {Hex: zeros, Name: "a b.tar"}}

	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}

	if top := got[0].Top() + " " + got[1].Top(); top != "talos a b.tar" {
		t.Errorf("at the top: %s", top)
	}

	// Sorted, each line once.
	if text := string(sums.Encode(append(got, got...))); text != zeros+"  a b.tar\n"+ones+"  talos/index.json\n" {
		t.Errorf("encoded:\n%s", text)
	}

	for name, test := range map[string]struct{ text, want string }{
		"empty":           {"", "line 1 is not a sum and a name"},
		"an empty line":   {zeros + "  a\n\n" + zeros + "  b\n", "line 2 is not"},
		"short":           {"00  a\n", "line 1 is not"},
		"one space":       {zeros + " a\n", "line 1 is not"},
		"binary mode":     {zeros + " *a\n", "line 1 is not"},
		"upper case":      {strings.Repeat("A", 64) + "  a\n", "line 1 is not"},
		"twice":           {zeros + "  a\n" + ones + "  a\n", "line 2: a is listed twice"},
		"absolute":        {zeros + "  /etc/passwd\n", "not a clean relative path"},
		"outside":         {zeros + "  ../a\n", "not a clean relative path"},
		"not clean":       {zeros + "  a/./b\n", "not a clean relative path"},
		"the directory":   {zeros + "  .\n", "not a clean relative path"},
		"escaped":         {zeros + "  a\\nb\n", "not a clean relative path"},
		"carriage":        {zeros + "  a\r\n", "not a clean relative path"},
		"slash at an end": {zeros + "  a/\n", "not a clean relative path"},
	} {
		if _, err := sums.Parse([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// FuzzParse: what was read is written as it was, but for the order.
func FuzzParse(f *testing.F) {
	f.Add([]byte(zeros + "  talos/index.json\n" + ones + "  talos-amd64.tar\n"))

	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, err := sums.Parse(data)
		if err != nil {
			return
		}

		encoded := sums.Encode(parsed)

		again, err := sums.Parse(encoded)
		if err != nil || len(again) != len(parsed) || string(sums.Encode(again)) != string(encoded) {
			t.Fatalf("%q became %q: %v", data, encoded, err)
		}

		for _, s := range parsed {
			if dir := filepath.Join("/dist", s.Name); !strings.HasPrefix(dir, "/dist/"+s.Top()) {
				t.Fatalf("%q leads to %s", s.Name, dir)
			}
		}
	})
}

func TestDifferences(t *testing.T) {
	t.Parallel()

	var d sums.Differences
	if err := d.Err(); err != nil {
		t.Error(err)
	}

	d.Altered("b")
	d.Missing("c")
	d.Extra("a")
	d.Altered("b")

	if got := d.Err(); got == nil || got.Error() != "a is not expected, b was altered, c is missing" {
		t.Error(got)
	}
}

func TestReadFile(t *testing.T) {
	t.Parallel()

	name := filepath.Join(t.TempDir(), sums.Name)

	for what, place := range map[string]func() error{
		"directory": func() error { return os.Mkdir(name, 0o755) },
		"FIFO":      func() error { return syscall.Mkfifo(name, 0o644) },
		"too large": func() error {
			if err := os.WriteFile(name, nil, 0o644); err != nil {
				return err
			}

			return os.Truncate(name, sums.MaxFile+1)
		},
	} {
		if err := place(); err != nil {
			t.Fatal(err)
		}

		if _, err := sums.ReadFile(name); err == nil || !strings.Contains(err.Error(), "is not a regular file of at most") {
			t.Errorf("%s: %v", what, err)
		}

		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := sums.ReadFile(name); !os.IsNotExist(err) {
		t.Error(err)
	}
}
