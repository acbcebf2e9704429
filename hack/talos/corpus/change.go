package corpus

import (
	"archive/tar"
	"slices"
	"strings"
)

// change makes a broken archive of a good one, which it may alter.
type change func(Archive) Archive

const labelRecord = "SCHILY.xattr.security.selinux"

// edit changes one entry.
func edit(name string, f func(*Entry)) change {
	return func(a Archive) Archive {
		f(&a[a.at(name)])

		return a
	}
}

func mode(name string, mode int64) change {
	return edit(name, func(e *Entry) { e.Mode = mode })
}

func body(name, text string) change {
	return edit(name, func(e *Entry) { e.Body = []byte(text) })
}

func label(name, label string) change {
	return edit(name, func(e *Entry) { e.PAXRecords = map[string]string{labelRecord: label} })
}

// kind turns an entry into something that is not a regular file.
func kind(name string, typeflag byte, link string) change {
	return edit(name, func(e *Entry) {
		e.Typeflag, e.Linkname, e.Body = typeflag, link, nil
	})
}

func without(name string) change {
	return func(a Archive) Archive {
		i := a.at(name)

		return slices.Delete(a, i, i+1)
	}
}

// withoutBelow drops an entry and everything below it.
func withoutBelow(prefix string) change {
	return func(a Archive) Archive {
		return slices.DeleteFunc(a, func(e Entry) bool { return strings.HasPrefix(e.Name, prefix) })
	}
}

func with(entries ...Entry) change {
	return func(a Archive) Archive { return append(a, entries...) }
}

func first(entry Entry) change {
	return func(a Archive) Archive { return append(Archive{entry}, a...) }
}

// again repeats an entry at the end.
func again(name string) change {
	return func(a Archive) Archive { return append(a, a[a.at(name)]) }
}

// last moves an entry to the end.
func last(name string) change {
	return func(a Archive) Archive { return append(without(name)(slices.Clone(a)), a[a.at(name)]) }
}

// renamed passes every name through f.
func renamed(f func(string) string) change {
	return func(a Archive) Archive {
		for i := range a {
			a[i].Name = f(a[i].Name)
		}

		return a
	}
}

func unlabelled(a Archive) Archive {
	for i := range a {
		a[i].PAXRecords = nil
	}

	return a
}

// manifest replaces text in manifest.yaml.
func manifest(from, to string) change {
	return edit("manifest.yaml", func(e *Entry) {
		text := string(e.Body)
		if !strings.Contains(text, from) {
			panic("the good manifest has no " + from)
		}

		e.Body = []byte(strings.Replace(text, from, to, 1))
	})
}

func constraint(text string) change { return manifest(">= v1.11.0", text) }

func both(changes ...change) change {
	return func(a Archive) Archive {
		for _, c := range changes {
			a = c(a)
		}

		return a
	}
}

// device is a character device that every machine has.
func device(name string) change {
	return both(kind(name, tar.TypeChar, ""), edit(name, func(e *Entry) { e.Devmajor, e.Devminor = 1, 3 }))
}
