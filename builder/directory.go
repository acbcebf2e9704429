package builder

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/builder/sums"
)

// Names of the files that describe a whole build.
const (
	ReportName = "build.json"
	SumsName   = sums.Name
)

// directory is the directory a build writes to. Everything is written into a hidden directory inside
// it, and moved to its place by rename once the whole build has succeeded: a failed or interrupted
// build leaves what was there before.
type directory struct {
	path, staging string
	lock          *os.File
	// made lists the directories that had to be made for path, innermost first.
	made []string

	mu    sync.Mutex
	files []fileSum
}

type fileSum struct {
	name, digest string
	size         int64
}

const stagingPrefix = ".cnibake-"

// openDirectory makes the directory if need be and takes it for this build alone.
func openDirectory(path string) (*directory, error) {
	made := absent(path)

	if err := os.MkdirAll(path, 0o755); err != nil {
		removeEmpty(made)

		return nil, fmt.Errorf("making output directory: %w", err)
	}

	lock, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening output directory: %w", err)
	}

	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()

		return nil, fmt.Errorf("output directory %s is in use by another build: wait for it or choose another --out", path)
	}

	sweep(path)

	staging, err := os.MkdirTemp(path, stagingPrefix)
	if err != nil {
		lock.Close()
		removeEmpty(made)

		return nil, fmt.Errorf("writing to output directory: %w", err)
	}

	return &directory{path: path, staging: staging, lock: lock, made: made}, nil
}

// sweep removes what builds that were killed left in a directory: only the holder of its lock writes
// there. What cannot go is only litter. It is no glob, since the directory's name may be a pattern.
func sweep(path string) {
	entries, _ := os.ReadDir(path)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), stagingPrefix) {
			_ = os.RemoveAll(filepath.Join(path, entry.Name()))
		}
	}
}

// close removes what was not published, and the directory itself when it was made for nothing.
func (d *directory) close() error {
	err := os.RemoveAll(d.staging)

	// Closing would not be enough: a process just forked elsewhere in this program has the file, too.
	err = errors.Join(err, syscall.Flock(int(d.lock.Fd()), syscall.LOCK_UN), d.lock.Close())

	removeEmpty(d.made)

	return err
}

// absent returns path and its parents as far as they do not exist, innermost first.
func absent(path string) []string {
	var missing []string

	for path = filepath.Clean(path); ; path = filepath.Dir(path) {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return missing
		}

		missing = append(missing, path)
	}
}

// removeEmpty removes directories, innermost first, until one is not empty.
func removeEmpty(dirs []string) {
	for _, dir := range dirs {
		if os.Remove(dir) != nil {
			return
		}
	}
}

// writeFile writes one file below the staging directory, hashing it on the way.
func (d *directory) writeFile(name string, write func(io.Writer) error) (fileSum, error) {
	file, err := os.OpenFile(filepath.Join(d.staging, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fileSum{}, fmt.Errorf("writing %s: %w", name, err)
	}
	defer file.Close()

	digester := payload.NewDigester()
	if err := write(io.MultiWriter(file, digester)); err != nil {
		return fileSum{}, fmt.Errorf("writing %s: %w", name, err)
	}

	if err := file.Close(); err != nil {
		return fileSum{}, fmt.Errorf("writing %s: %w", name, err)
	}

	written := fileSum{name, digester.Digest(), digester.Size()}
	d.add(written)

	return written, nil
}

func (d *directory) add(files ...fileSum) {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.files = append(d.files, files...)
}

func writeBytes(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)

		return err
	}
}

// publish writes the report and the sums, removes what an earlier build left, and moves the new files
// into place. The sums come last: while they match, the directory is whole.
func (d *directory) publish(report *Report) error {
	encoded, err := report.Encode()
	if err != nil {
		return err
	}

	if _, err := d.writeFile(ReportName, writeBytes(encoded)); err != nil {
		return err
	}

	listed := make([]sums.Sum, 0, len(d.files))
	for _, file := range d.files {
		listed = append(listed, sums.Sum{Hex: strings.TrimPrefix(file.digest, "sha256:"), Name: file.name})
	}

	if _, err := d.writeFile(SumsName, writeBytes(sums.Encode(listed))); err != nil {
		return err
	}

	retired, err := os.MkdirTemp(d.staging, "retired-")
	if err != nil {
		return fmt.Errorf("writing to output directory: %w", err)
	}

	var done []move

	if err := d.swap(retired, &done); err != nil {
		return errors.Join(err, undo(done))
	}

	return nil
}

// swap moves what an earlier build left out of the way and the new files into place, noting each move.
func (d *directory) swap(retired string, done *[]move) error {
	// Sums that speak of files which are no longer there must not survive the first rename.
	for _, name := range append([]string{SumsName}, d.previous()...) {
		// What signs or attests a file goes with it.
		for _, suffix := range []string{"", attest.SignatureSuffix, attest.StatementsSuffix} {
			if err := d.retire(retired, name+suffix, done); err != nil {
				return fmt.Errorf("replacing %s in output directory: %w", name+suffix, err)
			}
		}
	}

	for _, name := range d.names() {
		if err := d.retire(retired, name, done); err != nil {
			return fmt.Errorf("replacing %s in output directory: %w", name, err)
		}

		if err := rename(filepath.Join(d.staging, name), filepath.Join(d.path, name), done); err != nil {
			return fmt.Errorf("moving %s into output directory: %w", name, err)
		}
	}

	return nil
}

// retire moves a file or layout out of the way, if it is there.
func (d *directory) retire(retired, name string, done *[]move) error {
	err := rename(filepath.Join(d.path, name), filepath.Join(retired, name), done)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}

// move is a rename that was done.
type move struct{ from, to string }

func rename(from, to string, done *[]move) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}

	*done = append(*done, move{from, to})

	return nil
}

// undo takes moves back, the last one first.
func undo(done []move) error {
	var errs []error

	for _, m := range slices.Backward(done) {
		errs = append(errs, os.Rename(m.to, m.from))
	}

	return errors.Join(errs...)
}

// names returns the top-level names that were written, the two describing files last.
func (d *directory) names() []string {
	var names []string

	for _, file := range d.files {
		name, _, _ := strings.Cut(file.name, "/")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}

	rank := func(name string) int { return slices.Index([]string{ReportName, SumsName}, name) }
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })

	return names
}

// previous returns the names of the artifacts an earlier build left in the directory, as its report
// lists them. Whatever else is there belongs to somebody else and stays.
func (d *directory) previous() []string {
	// Anyone's file may be called build.json.
	report, err := readReport(d.path)
	if err != nil {
		return nil
	}

	var names []string
	for _, artifact := range report.artifacts() {
		names = append(names, artifact.Name)
	}

	return names
}
