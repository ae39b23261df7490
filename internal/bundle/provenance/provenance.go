// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provenance verifies Helm's provenance files. Such a file contains the digest of a chart archive, and is
// signed with OpenPGP. The package does not fetch files: callers pass the archive, the provenance file and the
// keyrings.
package provenance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"helm.sh/helm/v3/pkg/provenance"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

var (
	// ErrKeyring means that a keyring cannot be read.
	ErrKeyring = errors.New("the keyring cannot be read")

	// ErrFiles means that the files for the verification cannot be written.
	ErrFiles = errors.New("cannot write the files to verify")
)

// maxValues bounds the values in a provenance file. The file has the metadata of a chart and the digest of its archive.
const maxValues = 20_000

// slots bounds the archives in the folder for temporary files: the folder may have little space.
var slots = make(chan struct{}, 2)

// Verify returns the display name of the signer of a provenance file. A key of the keyrings must have signed the file,
// and the file must contain the digest of the archive under the name of the archive file. Keyrings are binary or
// armored. The keys of the map keyrings are names for messages. Verify waits until few other files are being verified.
// If the context ends first, the error is ErrFiles.
func Verify(ctx context.Context, file string, archive, text []byte, keyrings map[string][]byte,
) (signer string, err error) {
	if file != filepath.Base(file) || file == "." || file == ".." {
		return "", fmt.Errorf("%q is not the name of a file", file)
	}
	keys, err := read(keyrings)
	if err != nil {
		return "", err
	}
	if err := weigh(text); err != nil {
		return "", fmt.Errorf("the provenance file of %s is not valid: %w", file, err)
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return "", fmt.Errorf("%w: other files are being verified: %w", ErrFiles, ctx.Err())
	}
	// Helm's verification reads files, not memory.
	folder, err := os.MkdirTemp("", "helmop-provenance-")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrFiles, err)
	}
	defer func() {
		if removed := os.RemoveAll(folder); removed != nil && err == nil {
			err = fmt.Errorf("%w: %w", ErrFiles, removed)
		}
	}()
	chart := filepath.Join(folder, file)
	for path, data := range map[string][]byte{chart: archive, chart + ".prov": text} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return "", fmt.Errorf("%w: %w", ErrFiles, err)
		}
	}
	signatory := &provenance.Signatory{KeyRing: keys}
	verified, err := signatory.Verify(chart, chart+".prov")
	if err != nil {
		return "", fmt.Errorf("the provenance file of %s is not valid: %s", file, oneLine(err))
	}
	return nameOf(verified.SignedBy), nil
}

// weigh returns an error if Helm's function could need too much memory to parse a provenance file. Helm's function
// refuses a text that has no signature.
func weigh(text []byte) error {
	block, _ := clearsign.Decode(text)
	if block == nil {
		return nil
	}
	for part := range bytes.SplitSeq(block.Plaintext, []byte("\n...\n")) {
		if err := yamlweight.Refusal(part); err != nil {
			return err
		}
		if yamlweight.HasAliases(part) {
			return errors.New("it has YAML aliases")
		}
		if values := yamlweight.Of(part).Values; values > maxValues {
			return fmt.Errorf("it has up to %d values, and the limit is %d", values, maxValues)
		}
	}
	return nil
}

// read returns the keys of all keyrings.
func read(keyrings map[string][]byte) (openpgp.EntityList, error) {
	var all openpgp.EntityList
	for _, name := range slices.Sorted(maps.Keys(keyrings)) {
		data := keyrings[name]
		parse := openpgp.ReadKeyRing
		if bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN")) {
			parse = openpgp.ReadArmoredKeyRing
		}
		keys, err := parse(bytes.NewReader(data))
		if err != nil || len(keys) == 0 {
			return nil, fmt.Errorf("%w: key %q of the Secret has no public key of OpenPGP", ErrKeyring, name)
		}
		all = append(all, keys...)
	}
	return all, nil
}

// nameOf returns the name of a key: its fingerprint, and its first identity.
func nameOf(key *openpgp.Entity) string {
	name := fmt.Sprintf("OpenPGP key %X", key.PrimaryKey.Fingerprint)
	if identities := slices.Sorted(maps.Keys(key.Identities)); len(identities) > 0 {
		name += " (" + identities[0] + ")"
	}
	return name
}

// oneLine returns the text of an error in one short line. The text may contain text of the file.
func oneLine(err error) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(err.Error(), "?")), " ")
	return strings.ToValidUTF8(text[:min(len(text), 200)], "")
}
