// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registryaccess

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/encoding/protojson"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/signing"
)

// maxSignature is the maximum size of a signature, in bytes. maxSignatures is the maximum number of signatures that are
// read.
const (
	maxSignature  = 1 << 20
	maxSignatures = 64
)

// SignFlags are the flags for signing.
type SignFlags struct {
	enabled bool
	key     string
}

// Add adds the flags to a command.
func (f *SignFlags) Add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.enabled, "sign", false, "Sign the pushed artifact like cosign, with --key.")
	flags.StringVar(&f.key, "key", "",
		"File with the private key for --sign, from \"cosign generate-key-pair\" or in PKCS #8. "+
			"Its password is read from "+signing.PasswordVariable+" or prompted for.")
}

// Validate returns an error if the flags contradict each other.
func (f *SignFlags) Validate() error {
	switch {
	case f.enabled && f.key == "":
		return kube.Usagef("--sign requires --key")
	case !f.enabled && f.key != "":
		return kube.Usagef("--key requires --sign")
	default:
		return nil
	}
}

// Signer signs pushed artifacts. A nil Signer signs nothing.
type Signer struct{ key crypto.PrivateKey }

// Signer reads the key. Callers call it before they push anything, so that an unusable key fails early.
func (f *SignFlags) Signer(ctx context.Context, streams genericiooptions.IOStreams) (*Signer, error) {
	if !f.enabled {
		return nil, nil
	}
	key, err := signing.LoadKey(f.key, func() ([]byte, error) { return keyPassword(ctx, streams) })
	if err != nil {
		return nil, fmt.Errorf("--key: %w: nothing was pushed", err)
	}
	return &Signer{key}, nil
}

// Sign signs a manifest and stores the signature next to it. It returns the digest of the signature's manifest. A nil
// Signer returns an empty digest.
func (s *Signer) Sign(ctx context.Context, repository *remote.Repository, subject ocispec.Descriptor) (string, error) {
	if s == nil {
		return "", nil
	}
	known, err := s.signature(ctx, repository, subject)
	if err != nil || known != "" {
		return known, err
	}
	bundle, err := signing.Manifest(s.key, subject)
	if err != nil {
		return "", err
	}
	return signing.Push(ctx, repository, bundle, signing.SignPredicate, subject)
}

// signature looks for an existing signature with this key. So a pipeline that pushes unchanged content does not add
// signatures. The result is the digest of the signature's manifest; empty if there is no signature.
func (s *Signer) signature(
	ctx context.Context,
	repository *remote.Repository,
	subject ocispec.Descriptor,
) (known string, err error) {
	var referrers []ocispec.Descriptor
	// The filter by type is not used, because some registries report the type of the configuration as the artifact
	// type.
	hasAPI, err := oci.ListReferrers(ctx, repository, subject, func(page []ocispec.Descriptor) error {
		referrers = append(referrers, page...)
		return nil
	})
	if err != nil {
		return "", err
	}
	// With the API, a push of a signature need not update the referrers tag. An error means that the repository knows
	// already whether there is an API.
	_ = repository.SetReferrersCapability(hasAPI)
	for _, referrer := range referrers[:min(len(referrers), maxSignatures)] {
		// Unreadable signatures and signatures with another key do not count.
		if s.hasSigned(ctx, repository, referrer, subject) {
			return referrer.Digest.String(), nil
		}
	}
	return "", nil
}

// hasSigned reports whether a manifest is a signature of the subject with the key.
func (s *Signer) hasSigned(
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
	statement, err := signing.Statement(subject)
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
		bytes.NewReader(dsse.PAE(signing.StatementMediaType, statement)),
	) == nil
}

// fetchSmall reads content of at most maxSignature bytes.
func fetchSmall(ctx context.Context, repository *remote.Repository, desc ocispec.Descriptor) ([]byte, error) {
	if desc.Size > maxSignature {
		return nil, errdef.ErrSizeExceedsLimit
	}
	return content.FetchAll(ctx, repository, desc)
}

func keyPassword(ctx context.Context, streams genericiooptions.IOStreams) ([]byte, error) {
	if password, ok := os.LookupEnv(signing.PasswordVariable); ok {
		return []byte(password), nil
	}
	password, err := PromptPassword(ctx, streams, "Password of the key: ")
	if errors.Is(err, ErrNoTerminal) {
		return nil, fmt.Errorf(
			"the key is encrypted, and there is no terminal to prompt for its password; set %s", signing.PasswordVariable)
	}
	return password, err
}
