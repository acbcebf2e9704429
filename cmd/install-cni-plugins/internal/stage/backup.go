package stage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
)

// backups opens the directory of backups, making it where it is missing.
func (s *store) backups() (*directory, error) {
	path := s.dir.join(backupsName)

	err := s.dir.sys.call("mkdir", path, func() error { return unix.Mkdirat(s.dir.fd, backupsName, 0o700) })
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}

	d := &directory{sys: s.dir.sys, path: path}

	err = d.sys.call("open", path, func() (err error) {
		d.fd, err = unix.Openat(s.dir.fd, backupsName, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)

		return err
	})
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		// Not %w: the state directory is there, so this must not be taken for having none.
		err = fmt.Errorf("%s is not a directory; move it away", path)
	}

	return d, err
}

func backupName(digest string) string {
	return strings.TrimPrefix(digest, "sha256:")
}

// keep makes a backup of a file that is about to be replaced.
func (s *store) keep(ctx context.Context, bin *directory, name string, t target) error {
	backups, err := s.backups()
	if err != nil {
		return err
	}
	defer backups.close()

	to := backupName(t.digest)

	was, err := backups.look(ctx, to)
	if err != nil || was.kind == regular && was.digest == t.digest {
		return err
	}

	from, _, err := bin.open(name)
	if err != nil {
		// Not %w: that it is the bin directory that fails must not be taken for the state directory.
		return fmt.Errorf("keeping a backup: %s", sentence(err))
	}
	defer from.close()

	err = backups.replace(ctx, to, was, content{file: from}, t.digest, attributes{mode: 0o600, uid: -1, gid: -1})
	if err != nil {
		if same, e := t.unchanged(bin, name); e == nil && !same {
			return errMoved
		}

		if strings.HasPrefix(pathOf(err), bin.path) {
			return fmt.Errorf("keeping a backup: %s", sentence(err))
		}

		return err
	}

	return backups.sync()
}

// forget removes the backups that the record does not mention any more.
func (s *store) forget() error {
	if !s.locked {
		return nil // another installer may have made one that is not in the record yet
	}

	if st, err := s.dir.lstat(backupsName); errors.Is(err, unix.ENOENT) || err == nil && kindOf(st.Mode) != folder {
		return nil
	}

	backups, err := s.backups()
	if err != nil {
		return err
	}
	defer backups.close()

	litter, err := backups.litter()
	if err != nil {
		return err
	}

	if _, err := backups.sweep(litter); err != nil {
		return err
	}

	wanted := s.record.backups()

	unwanted, err := backups.names(func(name string) bool { return !wanted[name] && payload.ValidDigest("sha256:"+name) })
	if err != nil {
		return err
	}

	for _, name := range unwanted {
		if err := backups.unlink(name); err != nil {
			return err
		}
	}

	return nil
}

// backups returns the names of the backups that the record relies on.
func (r *record) backups() map[string]bool {
	names := map[string]bool{}

	for _, entries := range r.Directories {
		for _, e := range entries {
			for _, c := range []*change{e.Done, e.Pending} {
				if c != nil && c.Before != nil && c.Before.Digest != "" {
					names[backupName(c.Before.Digest)] = true
				}
			}
		}
	}

	return names
}
