/* cli/main.c - the command tidegate: picks the verb. */
#include "tidegate/version.h"

#include <stdio.h>

int main(void)
{
    printf("tidegate %s\n", tg_version());
    return 0;
}
