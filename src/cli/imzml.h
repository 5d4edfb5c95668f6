/* cli/imzml.h - `info` and `verify` of imaging mass spectrometry data sets. */
#ifndef TG_CLI_IMZML_H
#define TG_CLI_IMZML_H

#include "cli.h"

/* Does the path end in .imzML, in any case? */
bool imzml_is_meant(const char *path);
/* The verbs with such an operand; their exit status. */
int imzml_info(cli *c);
int imzml_verify(cli *c);

#endif
