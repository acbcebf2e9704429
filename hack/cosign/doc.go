// Package cosign holds what cnibake signs to the real cosign program, and the other way round. It is a
// module of its own because cosign's command line needs some 700 modules that cnibake does without.
package cosign
