// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"google.golang.org/protobuf/encoding/protojson"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
)

// Formats of a signature by cosign 3: a Sigstore bundle, in a manifest whose subject is the signed manifest.
// https://github.com/sigstore/cosign/blob/main/specs/BUNDLE_SPEC.md
const (
	bundleMediaType     = "application/vnd.dev.sigstore.bundle.v0.3+json"
	statementMediaType  = "application/vnd.in-toto+json"
	statementType       = "https://in-toto.io/Statement/v1"
	signPredicate       = "https://sigstore.dev/cosign/sign/v1"
	contentAnnotation   = "dev.sigstore.bundle.content"
	predicateAnnotation = "dev.sigstore.bundle.predicateType"

	// maxSignature is the largest signature that is read, in bytes. maxSignatures is how many are read.
	maxSignature  = 1 << 20
	maxSignatures = 64

	// passwordVariable is the environment variable with the password of the key, as with cosign.
	passwordVariable = "COSIGN_PASSWORD"
)

// signFlags are the flags for signing.
type signFlags struct {
	enabled bool
	key     string
}

func (f *signFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.enabled, "sign", false, "Sign the pushed artifact like cosign, with --key.")
	flags.StringVar(&f.key, "key", "",
		"File with the private key for --sign, from \"cosign generate-key-pair\" or in PKCS #8. "+
			"Its password is read from "+passwordVariable+" or prompted for.")
}

func (f *signFlags) validate() error {
	switch {
	case f.enabled && f.key == "":
		return usageError{errors.New("--sign requires --key")}
	case !f.enabled && f.key != "":
		return usageError{errors.New("--key requires --sign")}
	default:
		return nil
	}
}

// signer signs what is pushed. A nil signer does not sign.
type signer struct{ key crypto.PrivateKey }

// signer reads the key. It runs before anything is pushed, so that an unusable key fails early.
func (f *signFlags) signer(streams Streams) (*signer, error) {
	if !f.enabled {
		return nil, nil
	}
	key, err := f.privateKey(streams)
	if err != nil {
		return nil, fmt.Errorf("--key: %w: nothing was pushed", err)
	}
	if _, err := signature.LoadDefaultSigner(key); err != nil {
		return nil, fmt.Errorf("--key: %s: %w: nothing was pushed", f.key, err)
	}
	return &signer{key}, nil
}

// sign signs a manifest and stores the signature beside it. It returns the digest of the signature's manifest; empty
// for a nil signer.
func (s *signer) sign(ctx context.Context, repository *remote.Repository, subject ocispec.Descriptor) (string, error) {
	if s == nil {
		return "", nil
	}
	known, err := s.signature(ctx, repository, subject)
	if err != nil || known != "" {
		return known, err
	}
	bundle, err := signedBundle(s.key, subject)
	if err != nil {
		return "", err
	}
	return pushBundle(ctx, repository, bundle, subject)
}

// signature looks for an existing signature by this key, so that a pipeline that pushes unchanged content does not add
// signatures. It returns the digest of the signature's manifest; empty if there is none.
func (s *signer) signature(
	ctx context.Context,
	repository *remote.Repository,
	subject ocispec.Descriptor,
) (known string, err error) {
	var referrers []ocispec.Descriptor
	// The filter by type is not used: some registries report the configuration's type as the type of the artifact.
	err = repository.Referrers(ctx, subject, "", func(page []ocispec.Descriptor) error {
		referrers = append(referrers, page...)
		return nil
	})
	if err != nil && !errors.Is(err, errdef.ErrNotFound) {
		return "", err
	}
	for _, referrer := range referrers[:min(len(referrers), maxSignatures)] {
		// Signatures that are unreadable or made with another key are skipped.
		if s.hasSigned(ctx, repository, referrer, subject) {
			return referrer.Digest.String(), nil
		}
	}
	return "", nil
}

// hasSigned is true if a manifest is a signature of the subject by the key.
func (s *signer) hasSigned(
	ctx context.Context,
	repository *remote.Repository,
	referrer, subject ocispec.Descriptor,
) bool {
	var manifest ocispec.Manifest
	found := &protobundle.Bundle{}
	text, err := fetchSmall(ctx, repository, referrer)
	if err != nil || json.Unmarshal(text, &manifest) != nil || len(manifest.Layers) != 1 {
		return false
	}
	if text, err = fetchSmall(ctx, repository, manifest.Layers[0]); err != nil || protojson.Unmarshal(text, found) != nil {
		return false
	}
	envelope := found.GetDsseEnvelope()
	statement, err := statementOf(subject)
	if err != nil || envelope == nil || len(envelope.GetSignatures()) != 1 ||
		!bytes.Equal(envelope.GetPayload(), statement) {
		return false
	}
	signer, err := signature.LoadDefaultSigner(s.key)
	if err != nil {
		return false
	}
	public, err := signer.PublicKey()
	if err != nil {
		return false
	}
	verifier, err := signature.LoadDefaultVerifier(public)
	if err != nil {
		return false
	}
	return verifier.VerifySignature(
		bytes.NewReader(envelope.GetSignatures()[0].GetSig()),
		bytes.NewReader(dsse.PAE(statementMediaType, statement)),
	) == nil
}

// fetchSmall reads content of at most maxSignature bytes.
func fetchSmall(ctx context.Context, repository *remote.Repository, desc ocispec.Descriptor) ([]byte, error) {
	if desc.Size > maxSignature {
		return nil, errdef.ErrSizeExceedsLimit
	}
	return content.FetchAll(ctx, repository, desc)
}

// privateKey reads the key. It reads the password from the environment or the terminal if the key is encrypted.
func (f *signFlags) privateKey(streams Streams) (crypto.PrivateKey, error) {
	data, err := os.ReadFile(f.key)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s is not a PEM file", f.key)
	}
	der := block.Bytes
	switch block.Type {
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
		password, err := keyPassword(streams)
		if err != nil {
			return nil, err
		}
		if der, err = encrypted.Decrypt(block.Bytes, password); err != nil {
			return nil, fmt.Errorf("%s: the password in %s is wrong, or the key is damaged", f.key, passwordVariable)
		}
	case "PRIVATE KEY":
	default:
		return nil, fmt.Errorf("%s holds a block %q, which is not a private key of cosign or PKCS #8", f.key, block.Type)
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.key, err)
	}
	return key, nil
}

func keyPassword(streams Streams) ([]byte, error) {
	if password, ok := os.LookupEnv(passwordVariable); ok {
		return []byte(password), nil
	}
	file, ok := streams.In.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil, fmt.Errorf(
			"the key is encrypted, and there is no terminal to prompt for its password; set %s", passwordVariable)
	}
	_, _ = fmt.Fprint(streams.ErrOut, "Password of the key: ")
	password, err := term.ReadPassword(int(file.Fd()))
	_, _ = fmt.Fprintln(streams.ErrOut)
	return password, err
}

// signedBundle returns a bundle with a signed statement about a manifest.
func signedBundle(key crypto.PrivateKey, subject ocispec.Descriptor) (*protobundle.Bundle, error) {
	signer, err := signature.LoadDefaultSigner(key)
	if err != nil {
		return nil, err
	}
	statement, err := statementOf(subject)
	if err != nil {
		return nil, err
	}
	signed, err := signer.SignMessage(bytes.NewReader(dsse.PAE(statementMediaType, statement)))
	if err != nil {
		return nil, err
	}
	public, err := signer.PublicKey()
	if err != nil {
		return nil, err
	}
	hint, err := cryptoutils.SKID(public)
	if err != nil {
		return nil, err
	}
	return &protobundle.Bundle{
		MediaType: bundleMediaType,
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content: &protobundle.VerificationMaterial_PublicKey{
				PublicKey: &protocommon.PublicKeyIdentifier{Hint: fmt.Sprintf("%x", hint)},
			},
		},
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			Payload: statement, PayloadType: statementMediaType, Signatures: []*protodsse.Signature{{Sig: signed}},
		}},
	}, nil
}

// statementOf returns the statement about a manifest that is signed.
func statementOf(subject ocispec.Descriptor) ([]byte, error) {
	return json.Marshal(map[string]any{
		"_type": statementType,
		"subject": []any{
			map[string]any{"digest": map[string]string{subject.Digest.Algorithm().String(): subject.Digest.Encoded()}},
		},
		"predicateType": signPredicate,
		"predicate":     map[string]any{},
	})
}

// pushBundle stores a bundle as a referrer. If the registry has no API for referrers, the client stores it under the
// tag that the distribution specification defines.
func pushBundle(
	ctx context.Context,
	repository *remote.Repository,
	bundle *protobundle.Bundle,
	subject ocispec.Descriptor,
) (string, error) {
	data, err := protojson.Marshal(bundle)
	if err != nil {
		return "", err
	}
	layer := describe(bundleMediaType, data)
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{
			SchemaVersion: 2,
		}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: bundleMediaType,
		Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{layer}, Subject: &subject,
		Annotations: map[string]string{contentAnnotation: "dsse-envelope", predicateAnnotation: signPredicate},
	}
	encoded, err := json.Marshal(manifest)
	if err != nil {
		return "", err
	}
	root := describe(manifest.MediaType, encoded)
	for _, blob := range []struct {
		ocispec.Descriptor
		data []byte
	}{{ocispec.DescriptorEmptyJSON, ocispec.DescriptorEmptyJSON.Data}, {layer, data}, {root, encoded}} {
		desc := blob.Descriptor
		desc.Data = nil
		if err := repository.Push(ctx, desc, bytes.NewReader(blob.data)); err != nil {
			return "", err
		}
	}
	return root.Digest.String(), nil
}
