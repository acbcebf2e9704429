package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles/distro"
)

// What people call the two file trees.
const (
	nodeName   = "the node"
	multusName = "Multus's container"
)

// Options say where to look.
type Options struct {
	// Root is where this program finds the node's root, MultusRoot that of Multus's container; it is
	// empty where that is not to be seen.
	Root, MultusRoot string
	// ShellRoot is where a person's shell finds the node's root: commands are written for that.
	ShellRoot string
	// BinDirs are the directories in which the runtime looks for plugins, in its order, as paths on the
	// node. There is at least one.
	BinDirs []string
	// ConfDir is the runtime's configuration directory on the node; MayLackConfDir says that it was
	// guessed and need not be visible from here.
	ConfDir        string
	MayLackConfDir bool
	// Upper is the upper directory of the overlay that the bin directory lies on, for this program; where
	// it is empty, the distribution's is taken if it is there.
	Upper string
	// MultusConfig is the text of the configuration of Multus's daemon; nil where it is not given.
	MultusConfig []byte
	// MultusPath are the directories in the CNI_PATH of Multus's environment.
	MultusPath []string
	Inputs     []Input
	// VMs are attachments ("namespace/name" or "name") that virtual machines use, beside those that the
	// inputs say; All stands for every one.
	VMs    []string
	Distro distro.Distro
	// Source is the payload to stage from; it need not exist.
	Source string
}

// All stands for every attachment.
const All = "all"

// Finding is something that is wrong.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	Warning bool    `json:"warning,omitempty"`
	Text    string  `json:"text"`
}

// Plugin is one plugin that an attachment calls.
type Plugin struct {
	Type string `json:"type"`
	// Role is where in the configuration it is named: "plugin", "ipam" or "delegate".
	Role string `json:"role"`
	// Path is what it resolves to on the node; empty where it does not.
	Path     string    `json:"path,omitempty"`
	Version  string    `json:"version,omitempty"`
	Findings []Finding `json:"findings"`
}

// Attachment is one configuration and what it needs.
type Attachment struct {
	Name     string    `json:"name"`
	From     string    `json:"from"`
	Plugins  []Plugin  `json:"plugins"`
	Findings []Finding `json:"findings"`
}

// Diagnosis is what was found and what to do.
type Diagnosis struct {
	SchemaVersion int    `json:"schemaVersion"`
	Operation     string `json:"operation"`
	// Good says that there is nothing to do but what warnings ask for.
	Good bool `json:"good"`
	// BinDirs are where attachments' plugins are looked for.
	BinDirs     []string     `json:"binDirs"`
	ConfDir     string       `json:"confDir"`
	Attachments []Attachment `json:"attachments"`
	// Node are the findings about the node itself.
	Node   []Finding `json:"node"`
	Advice []Step    `json:"advice"`
}

type doctor struct {
	*Options
	// payload has no plugins where none are at hand.
	payload payload.Manifest
	node    *view
	// attachView and attachDirs are where Multus looks for plugins.
	attachView *view
	attachDirs []string
	multusConf multusConf
	objects    objects
	kernel     *kernel
	programs   map[string]*program
	answers    map[question]*answer
	steps      []*Step
	// expectsMultus says that the attachments are Multus's.
	expectsMultus bool
	// waited is how long plugins have taken to answer.
	waited time.Duration
	// calls counts how many plugins all attachments call.
	calls int
}

// Diagnose examines a node. An error means that it could not look.
func Diagnose(ctx context.Context, o *Options) (*Diagnosis, error) {
	d := &doctor{Options: o, node: rootView(o.Root), objects: objects{vms: map[string]string{}}, programs: map[string]*program{}, answers: map[question]*answer{}}
	out := &Diagnosis{SchemaVersion: 1, Operation: "doctor", ConfDir: o.ConfDir, Attachments: []Attachment{}, Node: []Finding{}, Advice: []Step{}}

	if f, err := d.node.resolve("/"); err != nil || !f.isDir() {
		return nil, fmt.Errorf("%s is not a directory: mount the node's root there, or name it with --root", o.Root)
	}

	for _, in := range o.Inputs {
		var bad *badInputError

		if err := d.objects.read(in); errors.As(err, &bad) {
			a := newAttachment(in.Name, in.Name)
			d.correct(&a.Findings, BadJSON, bad.where, bad.what)
			out.Attachments = append(out.Attachments, a)
		} else if err != nil {
			return nil, err
		}
	}

	d.readPayload()
	d.kernel = newKernel(d.node)

	if err := d.findMultus(&out.Node); err != nil {
		return nil, err
	}

	out.BinDirs = d.attachDirs

	if s := d.noBinDir(d.BinDirs); s != nil {
		d.report(&out.Node, BinDirMissing, s, "none of [%s], where the runtime looks for plugins, is there", strings.Join(d.BinDirs, " "))
	}

	if err := d.examineShadows(ctx, &out.Node); err != nil {
		return nil, err
	}

	for _, a := range d.objects.attachments {
		out.Attachments = append(out.Attachments, d.attachment(ctx, a))
	}

	d.examineConfDir(ctx, out)

	out.Advice = append(out.Advice, d.advice()...)
	out.Good = true

	for _, s := range out.Advice {
		for _, v := range s.Verdicts {
			out.Good = out.Good && v.isWarning()
		}
	}

	if d.calls > maxAllCalls {
		return nil, fmt.Errorf("the attachments call more than %d plugins: give fewer at a time", maxAllCalls)
	}

	return out, ctx.Err()
}
