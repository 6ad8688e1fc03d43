/* SQLite's own load, speedtest1, on a database of the extension that NANDEX_SQLITE names, or without it on an ordinary file. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

int speedtest1_main(int argc, char **argv);

int main(int argc, char **argv) {
  const char *extension = getenv("NANDEX_SQLITE");
  sqlite3 *loader = NULL;
  char *why = NULL;
  /* The name of the database is a URI that names the device. */
  sqlite3_config(SQLITE_CONFIG_URI, 1);
  if (extension != NULL) {
    if (sqlite3_open(":memory:", &loader) != SQLITE_OK ||
        sqlite3_db_config(loader, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL) != SQLITE_OK ||
        sqlite3_load_extension(loader, extension, NULL, &why) != SQLITE_OK) {
      fprintf(stderr, "%s cannot be loaded: %s\n", extension, why != NULL ? why : "no reason given");
      return 1;
    }
  }
  return speedtest1_main(argc, argv);
}
