package gotool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
)

// SourceFiles lists the files that BuildDir compiles for the packages: their own and those of all they
// import outside the standard library, in the order of the go command.
func (t *Toolchain) SourceFiles(ctx context.Context, dir, arch string, packages []string) ([]string, error) {
	cmd := t.run(ctx, dir, append([]string{
		"list", "-mod=readonly", "-deps", "-json=Dir,Standard,GoFiles,SFiles,HFiles,SysoFiles,EmbedFiles",
	}, packages...)...)
	cmd.Env = append(cmd.Env, "GOARCH="+arch)

	out, err := output(ctx, cmd)
	if err != nil {
		return nil, fmt.Errorf("listing sources for %s: %w", arch, err)
	}

	var files []string

	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var listed struct {
			Dir                                            string
			Standard                                       bool
			GoFiles, SFiles, HFiles, SysoFiles, EmbedFiles []string
		}

		err := decoder.Decode(&listed)
		if errors.Is(err, io.EOF) {
			return files, nil
		}

		if err != nil {
			return nil, fmt.Errorf("reading the answer of go list: %w", err)
		}

		if listed.Standard {
			continue // the toolchain's version stands for these
		}

		for _, name := range slices.Concat(listed.GoFiles, listed.SFiles, listed.HFiles, listed.SysoFiles, listed.EmbedFiles) {
			files = append(files, filepath.Join(listed.Dir, name))
		}
	}
}
