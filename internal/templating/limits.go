// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

// The bounds of a rendering. They protect the manager, which renders for every tenant, from one template.
const (
	// maxTemplateBytes bounds one template. The API server refuses larger objects soon after.
	maxTemplateBytes = 256 << 10

	// maxDocumentBytes bounds spec.values as JSON, one valuesFrom document, and what valuesTemplate yields. Helm keeps
	// values in a Secret, which holds at most 1 MiB.
	maxDocumentBytes = 1 << 20

	// maxSourceBytes bounds what all values sources of a Spec hold together that are the same for all Clusters. Those of
	// one Cluster are paid from the budget of its rendering.
	maxSourceBytes = 32 << 20

	// maxPathSteps bounds the keys and indices of a targetPath, and maxPathIndex one index.
	maxPathSteps, maxPathIndex = 32, 999

	// maxPostRenderItems bounds patches, images, labels and annotations, as the API does for each spec.postRender alone.
	maxPostRenderItems = 64

	// maxValueBytes bounds what one function takes or gives, so that doubling a string in a loop ends.
	maxValueBytes = 1 << 20

	// maxDepth bounds the nesting of values, so that no recursion over them exhausts the stack. Charts stay below 20.
	maxDepth = 100

	// maxNodes bounds the number of values in one document after its YAML aliases are followed.
	maxNodes = 100_000

	// maxArguments bounds the arguments of one call: some functions multiply all of them.
	maxArguments = 256

	// maxWork is the budget of one rendering. A typical CNI's values need a thousandth of it (a test holds that it is less
	// than a hundredth); all of it is about a second of one core at the very worst.
	maxWork = 16 << 20

	// What things cost. A byte of text costs 1, a value within a list or map costNode, a call of a function costCall. A
	// loop round costs costStep, and costParsed for each node of the parsed template in it: what is built into
	// text/template, and not wrapped here, is paid by that.
	costNode   = 32
	costCall   = 256
	costStep   = 256
	costParsed = 64
)
