package corpus

import (
	"archive/tar"
	"math/rand/v2"
	"slices"
	"strings"
)

// Random changes a good archive in one to three ways, decided by the seed alone.
func Random(good Archive, seed uint64) Archive {
	r := rand.New(rand.NewPCG(seed, 0))
	archive := good.clone()

	for range 1 + r.IntN(3) {
		archive = steps[r.IntN(len(steps))](r, archive)
		if len(archive) == 0 {
			break
		}
	}

	return archive
}

var steps = []func(*rand.Rand, Archive) Archive{
	func(r *rand.Rand, a Archive) Archive {
		i := r.IntN(len(a))

		return slices.Delete(a, i, i+1)
	},
	func(r *rand.Rand, a Archive) Archive { return slices.Insert(a, r.IntN(len(a)+1), a[r.IntN(len(a))]) },
	func(r *rand.Rand, a Archive) Archive {
		i, j := r.IntN(len(a)), r.IntN(len(a))
		a[i], a[j] = a[j], a[i]

		return a
	},
	func(r *rand.Rand, a Archive) Archive {
		a[r.IntN(len(a))].Mode ^= 1 << r.IntN(12)

		return a
	},
	func(r *rand.Rand, a Archive) Archive {
		const kinds = string(rune(tar.TypeReg)) + "1" + "2" + "3" + "4" + "5" + "6"

		entry := &a[r.IntN(len(a))]
		entry.Typeflag = kinds[r.IntN(len(kinds))]

		if entry.Typeflag != tar.TypeDir {
			entry.Name = strings.TrimSuffix(entry.Name, "/")
		}

		// Only files have content, and only links a target.
		if entry.Typeflag != tar.TypeReg {
			entry.Body = nil
		}

		if entry.Linkname = ""; entry.Typeflag == tar.TypeLink || entry.Typeflag == tar.TypeSymlink {
			entry.Linkname = a[r.IntN(len(a))].Name
		}

		return a
	},
	func(r *rand.Rand, a Archive) Archive {
		prefixes := []string{"./", "../", "/", "rootfs/", "extra/", "rootfs/../"}
		entry := &a[r.IntN(len(a))]
		entry.Name = prefixes[r.IntN(len(prefixes))] + entry.Name

		return a
	},
	func(r *rand.Rand, a Archive) Archive {
		entry := &a[r.IntN(len(a))]
		if parts := strings.Split(strings.TrimSuffix(entry.Name, "/"), "/"); len(parts) > 1 {
			i := r.IntN(len(parts))
			entry.Name = strings.Join(slices.Delete(parts, i, i+1), "/")
		}

		return a
	},
	func(r *rand.Rand, a Archive) Archive {
		entry := &a[r.IntN(len(a))]
		entry.Body = entry.Body[:r.IntN(len(entry.Body)+1)]

		return a
	},
	func(r *rand.Rand, a Archive) Archive {
		entry := &a[r.IntN(len(a))]
		if len(entry.Body) > 0 {
			entry.Body = slices.Clone(entry.Body)
			entry.Body[r.IntN(min(len(entry.Body), 200))] ^= byte(1 + r.IntN(255))
		}

		return a
	},
}
