// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package provenance

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/provenance"
)

// key returns a new key, and its public part in binary and armored form.
func key(t *testing.T, name string) (entity *openpgp.Entity, binary, armored []byte) {
	t.Helper()
	entity, err := openpgp.NewEntity(name, "", name+"@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	var public, text bytes.Buffer
	if err := entity.Serialize(&public); err != nil {
		t.Fatal(err)
	}
	w, err := armor.Encode(&text, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(entity.Serialize(w), w.Close()); err != nil {
		t.Fatal(err)
	}
	return entity, public.Bytes(), text.Bytes()
}

// clearSigned returns a text with a signature.
func clearSigned(t *testing.T, signer *openpgp.Entity, text string) []byte {
	t.Helper()
	var signed bytes.Buffer
	w, err := clearsign.Encode(&signed, signer.PrivateKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write([]byte(text))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return signed.Bytes()
}

func TestProvenanceFile(t *testing.T) {
	t.Parallel()
	signer, binary, armored := key(t, "signer")
	_, other, _ := key(t, "other")
	path, err := chartutil.Save(&chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: "demo", Version: "1.0.0"}},
		t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := (&provenance.Signatory{Entity: signer}).ClearSign(path)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, signed := filepath.Base(path), []byte(text)
	for name, tc := range map[string]struct {
		file          string
		archive, text []byte
		keyrings      map[string][]byte
		want          string
	}{
		"binary keys":     {file, archive, signed, map[string][]byte{"a.gpg": binary}, ""},
		"armored keys":    {file, archive, signed, map[string][]byte{"a.asc": armored, "b.gpg": other}, ""},
		"another signer":  {file, archive, signed, map[string][]byte{"b.gpg": other}, "unknown entity"},
		"another archive": {file, []byte("x"), signed, map[string][]byte{"a.gpg": binary}, "sum does not match"},
		"another version": {"demo-2.0.0.tgz", archive, signed, map[string][]byte{"a.gpg": binary}, "demo-2.0.0.tgz"},
		"no signature":    {file, archive, []byte("x"), map[string][]byte{"a.gpg": binary}, "signature block not found"},
		"a changed text": {file, archive, []byte(strings.Replace(text, "1.0.0", "6.6.6", 1)),
			map[string][]byte{"a.gpg": binary}, "invalid"},
		"aliases": {file, archive, clearSigned(t, signer, "a: &a x\nb: [*a]\n...\nfiles: {}\n"),
			map[string][]byte{"a.gpg": binary}, "aliases"},
		"many values": {file, archive, clearSigned(t, signer, "a: ["+strings.Repeat("{},", maxValues)+"]\n...\nfiles: {}\n"),
			map[string][]byte{"a.gpg": binary}, "values"},
		"no keys":              {file, archive, signed, map[string][]byte{"a.gpg": []byte("x")}, `key "a.gpg"`},
		"a file in a folder":   {"../" + file, archive, signed, map[string][]byte{"a.gpg": binary}, "not the name of a file"},
		"a folder as the file": {"..", archive, signed, map[string][]byte{"a.gpg": binary}, "not the name of a file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Verify(t.Context(), tc.file, tc.archive, tc.text, tc.keyrings)
			if tc.want == "" {
				if err != nil || !strings.Contains(got, "signer@example.com") {
					t.Errorf("%q, %v, want the signer", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// TestFewFilesAtOnce checks that a verification writes no file while the others use all slots.
func TestFewFilesAtOnce(t *testing.T) { // not parallel: it uses all slots
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	_, keyring, _ := key(t, "signer")
	verify := func(ctx context.Context) error {
		_, err := Verify(ctx, "demo-1.0.0.tgz", []byte("x"), []byte("x"), map[string][]byte{"a.gpg": keyring})
		return err
	}
	for range cap(slots) {
		slots <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- verify(ctx) }()
	cancel()
	if err := <-ended; !errors.Is(err, ErrFiles) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v and %v", err, ErrFiles, context.Canceled)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
		t.Errorf("%d files, %v, want none", len(files), err)
	}
	for range cap(slots) {
		<-slots
	}
	// Each verification frees its slot.
	for range cap(slots) + 1 {
		if err := verify(t.Context()); err == nil || errors.Is(err, ErrFiles) {
			t.Errorf("with free slots: %v", err)
		}
	}
}
