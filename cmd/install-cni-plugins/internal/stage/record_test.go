package stage

import (
	"bytes"
	"strings"
	"testing"
)

const (
	sumA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	sumB = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func goodRecord() *record {
	return &record{SchemaVersion: 1, Directories: map[string]map[string]entry{
		"/opt/cni/bin": {
			"bridge": {Done: &change{Origin: replaced, Digest: sumA, Module: "example.com/m", Before: &before{Digest: sumB, Mode: 0o755}}},
			"static": {Pending: &change{Origin: created, Digest: sumA}},
			"vlan":   {Done: &change{Origin: replaced, Digest: sumA, Before: &before{Link: "../shared"}}},
		},
	}}
}

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()

	data, err := goodRecord().encode()
	must(t, err)

	r, err := parseRecord(data)
	must(t, err)
	equal(t, "record", r, goodRecord())
}

func TestRecordIsReadStrictly(t *testing.T) {
	t.Parallel()

	good, err := goodRecord().encode()
	must(t, err)

	for name, c := range map[string]struct{ old, replacement string }{
		"unknown key":        {`"origin": "created"`, `"origin": "created", "extra": 1`},
		"other schema":       {`"schemaVersion": 1`, `"schemaVersion": 2`},
		"second value":       {"\n}\n", "\n}\n{}"},
		"relative directory": {`"/opt/cni/bin"`, `"opt/cni/bin"`},
		"unclean directory":  {`"/opt/cni/bin"`, `"/opt/../cni/bin"`},
		"odd name":           {`"static"`, `"../static"`},
		"odd origin":         {`"created"`, `"found"`},
		"short digest":       {sumA, "sha256:aa"},
		"digest with a path": {sumB, "sha256:../../../../../../../../../../../../../../../../../../../../../etc"},
		"created with past":  {`"origin": "replaced"`, `"origin": "created"`},
		"no past":            {`"link": "../shared"`, `"uid": 1`},
		"two pasts":          {`"link": "../shared"`, `"link": "../shared", "digest": "` + sumA + `"`},
		"odd mode":           {`"mode": 493`, `"mode": 65535`},
		"says nothing":       {`"pending": {`, `"done": null, "pending": null}, "tuning": {"done": {`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			text := strings.Replace(string(good), c.old, c.replacement, 1)
			if text == string(good) {
				t.Fatal("the case changes nothing")
			}

			if _, err := parseRecord([]byte(text)); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is %v", err)
			}
		})
	}

	if _, err := parseRecord(bytes.Repeat([]byte(" "), maxRecordSize+1)); err == nil {
		t.Error("a huge record is read")
	}
}

func FuzzParseRecord(f *testing.F) {
	good, err := goodRecord().encode()
	if err != nil {
		f.Fatal(err)
	}

	f.Add(good)
	f.Add([]byte(`{"schemaVersion":1,"directories":{}}`))
	f.Add([]byte(`{"schemaVersion":1,"directories":{"/":{"a":null}}}`))

	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRecord(data)
		if err != nil {
			return
		}

		again, err := r.encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}

		back, err := parseRecord(again)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}

		third, err := back.encode()
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("writing is not stable: %v", err)
		}

		for name := range r.backups() {
			if strings.ContainsAny(name, "/.") {
				t.Fatalf("a backup is named %q", name)
			}
		}
	})
}
