package sameness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/plugins/sameness"
)

// Variables of a process that plays one case: the case, and the directory of the plugins.
const (
	caseVariable    = "SAMENESS_CASE"
	pluginsVariable = "SAMENESS_PLUGINS"
)

func TestMain(m *testing.M) {
	name := os.Getenv(caseVariable)
	if name == "" {
		os.Exit(m.Run())
	}

	if err := playHere(context.Background(), name, os.Getenv(pluginsVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// played is what came of a case.
type played struct {
	// Lacks are the kinds of links that the case needs and the kernel has not.
	Lacks   []string
	Records []sameness.Record
}

// playHere plays a case in the namespaces of this process and prints what came of it.
func playHere(ctx context.Context, name, plugins string) error {
	cases := sameness.Cases()

	i := slices.IndexFunc(cases, func(c sameness.Case) bool { return c.Name == name })
	if i < 0 {
		return fmt.Errorf("no case is called %q", name)
	}

	node, err := newWorld(plugins)
	if err != nil {
		return err
	}

	var result played

	for _, kind := range cases[i].Needs {
		if !node.has(kind) {
			result.Lacks = append(result.Lacks, kind)
		}
	}

	if result.Records, err = sameness.Play(ctx, node, cases[i]); err != nil {
		return err
	}

	return json.NewEncoder(os.Stdout).Encode(result)
}

// play plays a case with the plugins of a directory, on a node of its own.
func play(t *testing.T, c sameness.Case, plugins string) played {
	t.Helper()

	var stdout, stderr bytes.Buffer

	cmd := separately(t.Context(), caseVariable+"="+c.Name, pluginsVariable+"="+plugins)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr

	if err := cmd.Run(); err != nil {
		t.Fatalf("playing %s: %v\n%s", c.Name, err, stderr.String())
	}

	var result played
	if err := json.Unmarshal(stdout.Bytes(), &result); err != nil {
		t.Fatalf("playing %s: %v\n%s", c.Name, err, stdout.String())
	}

	return result
}

// requireTools skips where nothing can be played.
func requireTools(t *testing.T) {
	t.Helper()
	buildertest.RequireRoot(t)

	for _, tool := range []string{"bridge", "ip", "ip6tables-save", "iptables-save", "nft", "sh", "tc"} {
		buildertest.RequireTool(t, tool)
	}
}
